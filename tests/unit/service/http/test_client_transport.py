"""Tests when a client that does not read is given up, on a transport and a clock that the test holds."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from acker_service.http.client_transport import WHOLE_WITHIN, ClientTransport

TIMEOUT_S = 8.0


class Clock:
    """The event loop's clock; `pass_` lets time pass, and what is due run."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, callback: Callable[[], None]) -> "Clock":
        self.timers.append((self.now + seconds, callback))
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def pass_(self, seconds: float) -> None:
        until = self.now + seconds
        while due := [timer for timer in self.timers if timer[0] <= until]:
            self.now, callback = due[0]
            self.timers.remove(due[0])
            callback()
        self.now = until


class Transport(asyncio.Transport):
    """Holds ``size`` bytes that are not sent; ``calls`` are the calls made."""

    def __init__(self, size: int = 0, sock: Any = None) -> None:
        super().__init__({"socket": sock})
        self.size = size
        self.calls = list[str]()

    def get_write_buffer_size(self) -> int:
        return self.size

    def write(self, data: Any) -> None:
        self.size += len(data)

    def is_closing(self) -> bool:
        return "close" in self.calls

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")

    def write_eof(self) -> None:
        self.calls.append("eof")


class Written:
    """A client transport that holds an answer of a hundred thousand bytes."""

    def __init__(self, sock: Any = None) -> None:
        self.clock = Clock()
        self.inner = Transport(sock=sock)
        self.closed = 0
        self.transport = ClientTransport(self.inner, loop=self.clock, timeout_s=TIMEOUT_S, close=self._close)  # type: ignore[arg-type]
        self.transport.write(b"x" * 100_000)
        self.transport.watch()

    def _close(self) -> None:
        self.closed += 1

    @property
    def is_given_up(self) -> bool:
        return "abort" in self.inner.calls


@pytest.fixture
def written() -> Written:
    return Written()


def test_an_answer_of_which_nothing_is_taken_is_given_up_after_the_timeout(written: Written) -> None:
    written.clock.pass_(TIMEOUT_S - 0.1)
    assert not written.is_given_up
    written.clock.pass_(0.1)
    assert written.is_given_up
    assert written.clock.timers == []


def test_an_answer_that_is_taken_slowly_has_four_times_as_long(written: Written) -> None:
    for _ in range(WHOLE_WITHIN * 2 - 1):
        written.clock.pass_(TIMEOUT_S / 2)
        written.inner.size -= 1
    assert not written.is_given_up
    written.clock.pass_(TIMEOUT_S / 2)
    assert written.is_given_up


def test_the_timeout_begins_again_whenever_some_of_it_is_taken(written: Written) -> None:
    written.clock.pass_(TIMEOUT_S * 0.7)
    written.inner.size -= 1
    written.clock.pass_(TIMEOUT_S * 0.9)
    assert not written.is_given_up
    written.clock.pass_(TIMEOUT_S * 0.4)
    assert written.is_given_up


def test_a_client_that_has_taken_all_is_watched_no_more(written: Written) -> None:
    written.inner.size = 0
    written.clock.pass_(TIMEOUT_S)
    assert written.clock.timers == []
    assert not written.is_given_up


def test_a_stopped_watch_gives_nobody_up_and_can_begin_again(written: Written) -> None:
    written.transport.stop_watch()
    written.clock.pass_(TIMEOUT_S * WHOLE_WITHIN)
    assert not written.is_given_up
    written.transport.watch()
    written.clock.pass_(TIMEOUT_S)
    assert written.is_given_up


def test_a_second_watch_does_not_prolong_the_first(written: Written) -> None:
    written.clock.pass_(TIMEOUT_S / 2)
    written.transport.watch()
    written.clock.pass_(TIMEOUT_S / 2)
    assert written.is_given_up


def test_a_rest_that_is_unread_at_the_close_is_given_up() -> None:
    written = Written()
    written.transport.stop_watch()
    written.transport.close_now()
    assert written.inner.calls == ["close"]
    written.clock.pass_(TIMEOUT_S)
    assert written.is_given_up


def test_a_close_with_nothing_unread_is_not_watched() -> None:
    written = Written()
    written.transport.stop_watch()
    written.inner.size = 0
    written.transport.close_now()
    assert written.clock.timers == []


def test_the_connection_decides_how_it_closes(written: Written) -> None:
    written.transport.close()
    assert (written.closed, written.inner.calls) == (1, [])
    assert not written.transport.is_closing()
    written.transport.linger()
    assert (written.transport.is_closing(), written.inner.calls) == (True, ["eof"])


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a TCP connection; the other end reads when the test says so."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = socket.create_connection(server.getsockname())
        there, _ = server.accept()
    with here, there:
        yield here, there


def test_what_the_kernel_holds_counts_as_unread(pair: tuple[socket.socket, socket.socket]) -> None:
    """It takes megabytes at once from this process: until it does, only its own queue shows that a client reads."""
    here, there = pair
    here.settimeout(0)
    with contextlib.suppress(BlockingIOError):
        while True:
            here.send(b"x" * 65_536)
    written = Written(here)
    written.clock.pass_(TIMEOUT_S * 0.9)
    taken = 0
    while taken < 1_000_000:
        taken += len(there.recv(65_536))
    written.clock.pass_(TIMEOUT_S * 0.9)
    assert not written.is_given_up
    written.clock.pass_(TIMEOUT_S * 0.3)
    assert written.is_given_up
