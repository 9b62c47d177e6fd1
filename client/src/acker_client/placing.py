"""Knows how operations come to be applied: written in frozen requests, refused ones again in new requests."""

from typing import TYPE_CHECKING

from acker_protocol.errors import known
from acker_protocol.operations import NOT_ADMITTED, REFUSED, Init, Operation

from acker_client import calls, replies
from acker_client.calls import Answer
from acker_client.errors import Refused
from acker_client.steps import Flow, Pause

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from acker_client.calls import Call
    from acker_client.exchange import Exchange
    from acker_client.terms import Terms

Written = tuple[list[Answer], float]
"""The answers to some operations, and for how many seconds the service asks to be left alone."""


def place(exchange: "Exchange", messages: "Sequence[Operation]") -> Flow[list[Answer]]:
    """Write operations, and those that found no place again until they do or their time is over.

    The answers come in the order of the operations; those still refused are among them.
    """
    since = exchange.terms.clock()
    waits = exchange.terms.waits()
    requests = calls.write(exchange.topology, messages)
    answers, asked_s = yield from _send(exchange, requests)
    while left := _worth_another_try(answers, exchange.terms, age_s=exchange.terms.clock() - since):
        yield Pause(seconds=max(next(waits), asked_s))
        requests = write_again(exchange.topology, requests, [answers[index].message for index in left])
        newer, asked_s = yield from _send(exchange, requests)
        for index, answer in zip(left, newer, strict=True):
            answers[index] = answer
    return answers


def write_again(topology: str, refused: "Sequence[Call]", messages: "Sequence[Operation]") -> "list[Call]":
    """Write operations again that were refused.

    An ack or a fail that was alone in its request is sent with the same key: the service does not remember what it
    refused so, and does not apply it twice. All others need a new key: under the old one it would repeat its refusal.
    """
    [*kept] = refused
    alone = len(kept) == 1 and len(kept[0].messages) == 1 and not isinstance(messages[0], Init)
    return kept if alone else calls.write(topology, messages)


def refuse_unplaced(answer: Answer) -> None:
    """Raise the problem of an operation that was refused in a call of its own."""
    if answer.word in REFUSED:
        raise known()[answer.word](f"the {_named(answer.message)} was refused, up to the end of its time")


def refuse_any(answers: "Iterable[Answer]") -> None:
    """Raise `Refused` if any operation of a batch was."""
    refused = [answer for answer in answers if answer.word in REFUSED]
    if refused:
        raise Refused(refused)


def _send(exchange: "Exchange", requests: "Sequence[Call]") -> Flow[Written]:
    answers: list[Answer] = []
    asked_s = 0.0
    for call in requests:
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
    if not isinstance(message, Init):
        return terms.retry_for_ms / 1000
    return min(terms.place_for_ms, message.message_timeout_ms or terms.place_for_ms) / 1000


def _named(message: Operation) -> str:
    if isinstance(message, Init):
        return f"init of message id {message.message_id!r}"
    return f"{type(message).__name__.lower()} of root {message.root_id:016x}"
