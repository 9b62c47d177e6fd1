"""Tests plain requests on a connection, on a transport and a clock that the test holds, among requests over ASGI."""

import asyncio
from itertools import accumulate
from typing import Any

import pytest
from acker_service.http.answers import Answer
from hypothesis import given
from hypothesis import strategies as st

from tests.support.connections import CHUNKED, HEAD, REQUEST, TIMEOUT_S, Held

pytestmark = pytest.mark.anyio

PLAIN = b"POST /plain HTTP/1.1\r\nHost: acker\r\nContent-Length: 0\r\n\r\n"
KEPT_S = 75
ANSWER = Answer(status=200, headers=[(b"content-length", b"2")], body=b"{}")


class Exchanges:
    """Takes requests to /plain as plain; the test answers them, or they are answered at once."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.takes = True
        self.at_once = False

    def is_one(self, data: bytes) -> bool:
        return data.startswith(b"POST /plain") and data.endswith(b"\r\n\r\n") and REQUEST not in data

    def begin(self, data: bytes, connection: Any) -> bool:
        if not self.takes or not self.is_one(data):
            return False
        self.asked.append(data)
        if self.at_once:
            connection.answer(ANSWER, b"r1")
        return True


class Plain(Held):
    """A connection with plain requests."""

    def __init__(self) -> None:
        self.exchanges = Exchanges()
        super().__init__(self.exchanges)

    @property
    def answers(self) -> int:
        return self.transport.written.count(b"HTTP/1.1 200")

    def reply(self) -> None:
        self.connection.answer(ANSWER, b"r1")

    async def answer_due(self) -> None:
        """Answer what is under way, plain or not."""
        if self.connection._is_plain:
            self.reply()
        self.answer.set()
        await self.settle()
        self.answer.clear()


@pytest.fixture
async def held() -> Plain:
    return Plain()


async def test_an_answer_has_all_headers_in_one_write(held):
    held.connection.server_state.default_headers = [(b"date", b"now")]
    await held.feed(PLAIN)
    assert held.transport.written == b""
    held.reply()
    assert held.transport.written == (
        b"HTTP/1.1 200 OK\r\ndate: now\r\nx-request-id: r1\r\ncontent-length: 2\r\n\r\n{}"
    )
    assert held.asked == []


@pytest.mark.parametrize("stops", [False, True])
async def test_an_answer_has_the_same_bytes_as_over_asgi(held, stops):
    """The names that an application gives its headers are those of the answer; a process that drains closes."""
    other = Plain()
    other.exchanges.takes = False
    request = PLAIN.replace(b"Host", b"X-Request-Id: r1\r\nHost")
    for each in (held, other):
        each.connection.server_state.default_headers = [(b"date", b"now")]
        await each.feed(request)
        if stops:
            each.connection.announce_close()
    other.answer.set()
    await other.settle()
    held.connection.answer(Answer(status=200, headers=[(b"content-length", b"0")], body=b""), b"r1")
    assert held.transport.written == other.transport.written


@pytest.mark.parametrize("at_once", [False, True])
async def test_plain_requests_and_others_take_turns(held, at_once):
    held.exchanges.at_once = at_once
    held.answer.set()
    for number in range(1, 4):
        await held.feed(PLAIN)
        if not at_once:
            held.reply()
        await held.feed(REQUEST)
        assert held.answers == 2 * number
    assert (len(held.exchanges.asked), held.asked) == (3, ["/livez"] * 3)


async def test_what_follows_waits_for_the_answer_and_no_more_is_read_meanwhile(held):
    await held.feed(PLAIN)
    await held.feed(PLAIN[:10])
    assert held.transport.told == ["pause"]
    await held.feed(PLAIN[10:] + REQUEST)
    assert len(held.exchanges.asked) == 1
    held.answer.set()
    held.reply()
    await held.settle()
    assert held.transport.told[-1] == "resume"
    assert (held.answers, held.asked) == (3, ["/plain", "/livez"])  # the parser reads what came in pieces


async def test_a_request_that_waited_may_be_plain(held):
    await held.feed(PLAIN)
    await held.feed(PLAIN)
    held.reply()
    assert len(held.exchanges.asked) == 2
    held.reply()
    assert (held.answers, held.asked) == (2, [])


@pytest.mark.parametrize("is_answered", [True, False])
async def test_the_head_of_the_next_request_may_come_in_pieces(held, is_answered):
    held.answer.set()
    await held.feed(PLAIN)
    if is_answered:
        held.reply()
    await held.feed(REQUEST[:9])
    if not is_answered:
        held.reply()
    assert held.clock.running() == [TIMEOUT_S]
    await held.feed(REQUEST[9:])
    assert (held.answers, held.asked) == (2, ["/livez"])


POSTED = b"POST /ack HTTP/1.1\r\nHost: acker\r\nContent-Length: 3\r\n\r\nabc"
SENT = [PLAIN, REQUEST, POSTED, CHUNKED + b"3\r\nabc\r\n0\r\n\r\n", b"\r\n" + PLAIN]


@given(sent=st.lists(st.sampled_from(SENT), min_size=1, max_size=6), data=st.data())
def test_however_requests_come_in_pieces_each_is_answered_once(sent, data):
    whole, ends = b"".join(sent), [*accumulate(map(len, sent))]
    between, within = st.lists(st.sampled_from(ends)), st.lists(st.integers(0, len(whole)), max_size=6)
    cuts = sorted(data.draw(between) + data.draw(within))
    answers = data.draw(st.lists(st.booleans(), min_size=len(cuts) + 1, max_size=len(cuts) + 1))

    async def play():
        held = Plain()
        held.exchanges.is_one = lambda received: received == PLAIN
        for start, stop, is_answered in zip([0, *cuts], [*cuts, len(whole)], answers, strict=True):
            await held.feed(whole[start:stop])
            if is_answered:
                await held.answer_due()
        for _ in sent:
            await held.answer_due()
        assert held.answers == len(sent)
        assert not held.is_closed

    asyncio.run(play())


async def test_a_fault_with_what_a_client_sent_ends_its_connection_and_is_not_raised_where_it_is_answered(
    held, monkeypatch, caplog
):
    """The callback that answers it has others to answer, who share the call of the store."""

    def fail(_):
        raise RuntimeError("a fault")

    await held.feed(PLAIN)
    await held.feed(PLAIN[:10])
    monkeypatch.setattr(held.connection, "_parse", fail)
    held.reply()
    assert held.answers == 1
    assert held.transport.told[-1] == "abort"
    assert "a fault" in caplog.text


@pytest.mark.parametrize("beginning", [b"P", REQUEST[:-2], HEAD, REQUEST + b"GET / HTTP/1.1\r\nA: "])
async def test_bytes_within_a_request_are_never_a_request_of_their_own(held, beginning):
    """Else whoever writes a header or a body would send requests of theirs with the keys of others."""
    held.answer.set()
    await held.feed(beginning)
    await held.feed(PLAIN)
    assert held.exchanges.asked == []


async def test_a_request_behind_one_that_is_answered_otherwise_is_not_plain(held):
    await held.feed(REQUEST)
    await held.feed(PLAIN)
    held.answer.set()
    await held.settle()
    assert held.exchanges.asked == []
    assert (held.answers, held.asked) == (2, ["/livez", "/plain"])


async def test_a_request_that_is_not_taken_is_answered_over_asgi(held):
    held.exchanges.takes = False
    held.answer.set()
    await held.feed(PLAIN)
    assert (held.answers, held.asked) == (1, ["/plain"])


async def test_a_client_that_does_not_read_is_asked_over_asgi_which_waits_for_it(held):
    held.answer.set()
    held.connection.pause_writing()
    await held.feed(PLAIN)
    assert held.exchanges.asked == []
    held.connection.resume_writing()
    await held.settle()
    assert (held.answers, held.asked) == (1, ["/plain"])


async def test_the_time_for_a_head_ends_with_the_request(held):
    assert held.clock.running() == [TIMEOUT_S]
    await held.feed(PLAIN)
    assert held.clock.running() == []


async def test_an_idle_connection_is_closed_once_the_last_answer_is_old_enough(held):
    await held.feed(PLAIN)
    held.reply()
    assert held.clock.running() == [KEPT_S]
    held.clock.now = KEPT_S - 5
    await held.feed(PLAIN)
    held.reply()
    assert held.clock.running() == [KEPT_S]
    held.clock.now = KEPT_S
    held.clock.let_pass()
    assert held.clock.running() == [KEPT_S - 5]
    held.clock.now = 2 * KEPT_S - 5
    held.clock.let_pass()
    assert held.is_closed


async def test_a_connection_is_not_idle_while_a_plain_request_is_answered(held):
    await held.feed(PLAIN)
    held.reply()
    await held.feed(PLAIN)
    held.clock.now = 3 * KEPT_S
    held.clock.let_pass()
    assert not held.is_closed
    assert held.clock.running() == [KEPT_S]


async def test_the_timer_of_others_holds_for_plain_requests_too(held):
    held.answer.set()
    await held.feed(REQUEST)
    held.clock.now = KEPT_S - 1
    await held.feed(PLAIN)
    held.reply()
    held.clock.let_pass()
    assert not held.is_closed


async def test_a_process_that_ends_answers_and_closes(held):
    await held.feed(PLAIN)
    held.connection.shutdown()
    assert not held.is_closed
    held.reply()
    assert b"connection: close\r\n" in held.transport.written
    assert held.is_closed


async def test_a_process_that_drains_says_so_in_the_answer_that_is_due_and_in_the_next(held):
    await held.feed(PLAIN)
    held.stopping.set()
    held.connection.announce_close()
    held.reply()
    assert held.transport.written.count(b"connection: close\r\n") == 1
    assert held.is_closed
    other = Plain()
    other.stopping.set()
    other.answer.set()
    await other.feed(PLAIN)
    assert other.exchanges.asked == []
    assert other.transport.written.count(b"connection: close\r\n") == 1


async def test_nothing_is_written_for_a_client_that_is_gone(held):
    await held.feed(PLAIN)
    held.transport.close()
    held.connection.connection_lost(None)
    held.reply()
    assert held.transport.written == b""
    assert held.clock.running() == []


async def test_a_connection_over_the_limit_has_no_plain_requests(held):
    held.connection.app = held.connection._answer_overloaded
    await held.feed(PLAIN)
    assert held.exchanges.asked == []
    assert b"503" in held.transport.written
