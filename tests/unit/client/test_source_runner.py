"""Tests what the sources share: roots of messages, and the thread that reads their completions."""

import threading

from acker_client.sources._runner import Handlers, Runner
from acker_client.testing import MemoryAcker

from tests.support.waiting import eventually_true, never

WITHIN_S = 30.0


class Rejected(Exception):
    """Raised for a message that is not emitted."""


def make_runner(service: MemoryAcker, completed: list[str | None]) -> Runner[str]:
    handlers: Handlers[str] = Handlers(
        message_id=lambda message: message,
        send=lambda *_: None,
        rejection=Rejected,
        on_rejected=lambda _: None,
        on_untracked=lambda _: None,
        on_completion=lambda completion: completed.append(completion.message_id),
    )
    return Runner(service.acker(linger=0), spout="orders", handlers=handlers)


def polls(service: MemoryAcker) -> int:
    return sum(request.url.path.endswith("/completions") for request in service.requests)


def test_completions_are_asked_for_from_the_first_root_on(service: MemoryAcker) -> None:
    """Before it there is no such spout task: each request would be answered 404."""
    completed: list[str | None] = []
    runner = make_runner(service, completed)
    with runner.reading():
        never(lambda: polls(service), for_s=0.5)
        assert runner.emit(["42"]) == []
        eventually_true(lambda: completed == ["42"], within=WITHIN_S)


def test_a_source_that_has_emitted_nothing_ends(service: MemoryAcker) -> None:
    before = set(threading.enumerate())
    with make_runner(service, []).reading():
        assert set(threading.enumerate()) - before
    assert not set(threading.enumerate()) - before
    assert polls(service) == 0
