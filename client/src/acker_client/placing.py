"""Knows how operations come to be applied: written in frozen requests, refused inits again in new ones."""

from typing import TYPE_CHECKING

from acker_protocol.errors import known
from acker_protocol.operations import NOT_ADMITTED, REFUSED, Init, Operation

from acker_client import calls, replies
from acker_client.calls import Answer
from acker_client.errors import Refused
from acker_client.steps import Flow, Pause

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from acker_client.exchange import Exchange
    from acker_client.terms import Terms

Written = tuple[list[Answer], float]
"""The answers to some operations, and for how many seconds the service asks to be left alone."""


def place(exchange: "Exchange", messages: "Sequence[Operation]") -> Flow[list[Answer]]:
    """Write operations, and the inits that found no place again until they do or their time is over.

    Each further try is a new request with a new key: under the old one the service would repeat its refusal. The
    answers come in the order of the operations; those still refused are among them.
    """
    since = exchange.terms.clock()
    waits = exchange.terms.waits()
    answers, asked_s = yield from _write(exchange, messages)
    while left := _worth_another_try(answers, exchange.terms, age_s=exchange.terms.clock() - since):
        yield Pause(seconds=max(next(waits), asked_s))
        newer, asked_s = yield from _write(exchange, [answers[index].message for index in left])
        for index, answer in zip(left, newer, strict=True):
            answers[index] = answer
    return answers


def refuse_unplaced(answer: Answer) -> None:
    """Raise the problem of an operation that was refused in a call of its own."""
    if answer.word in REFUSED:
        raise known()[answer.word](f"the init of {_named(answer.message)} was refused, up to the end of its time")


def refuse_any(answers: "Iterable[Answer]") -> None:
    """Raise `Refused` if any operation of a batch was."""
    refused = [answer for answer in answers if answer.word in REFUSED]
    if refused:
        raise Refused(refused)


def _write(exchange: "Exchange", messages: "Sequence[Operation]") -> Flow[Written]:
    answers: list[Answer] = []
    asked_s = 0.0
    for call in calls.write(exchange.topology, messages):
        reply = yield from exchange.send(call)
        answers += replies.read_answers(call, reply)
        asked_s = max(asked_s, replies.wait_s(reply))
    return answers, asked_s


def _worth_another_try(answers: "Sequence[Answer]", terms: "Terms", *, age_s: float) -> list[int]:
    return [
        index
        for index, answer in enumerate(answers)
        if answer.word in NOT_ADMITTED and age_s < _patience_s(answer.message, terms)
    ]


def _patience_s(message: Operation, terms: "Terms") -> float:
    timeout = message.message_timeout_ms if isinstance(message, Init) else None
    return min(terms.place_for_ms, timeout or terms.place_for_ms) / 1000


def _named(message: Operation) -> str:
    return f"message id {message.message_id!r}" if isinstance(message, Init) else f"root {message.root_id:016x}"
