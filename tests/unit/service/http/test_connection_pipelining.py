"""Tests pipelined requests, refusals among them, and input after an early answer."""

import asyncio

import pytest
from acker_service.http.connection import MAX_PIPELINED, SLICE

from tests.support.connections import (
    CHUNKED,
    CLOSING,
    HEAD,
    MAX_DISCARDED,
    NO_HTTP,
    REQUEST,
    SHORTEST,
    TIMEOUT_S,
    Held,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
async def held() -> Held:
    return Held()


async def test_reading_is_paused_while_a_request_waits_whatever_would_resume_it(held):
    await held.feed(REQUEST * 3)
    held.connection.flow.resume_reading()
    assert (held.transport.told, held.asked) == (["pause"], ["/livez"])
    await held.answer_all(3)
    assert held.transport.told == ["pause", "resume"]


@pytest.mark.parametrize("first", [0, 1, 17, 18, 1_799])
async def test_no_more_than_a_hundred_requests_wait_and_all_are_answered(held, first):
    flood = SHORTEST * 1_000
    await held.feed(flood[:first])
    await held.feed(flood[first:])
    assert 1 <= len(held.connection.pipeline) <= MAX_PIPELINED
    held.answer.set()
    for _ in range(1_000):
        await asyncio.sleep(0)
        assert len(held.connection.pipeline) <= MAX_PIPELINED
    await held.answer_all(1_000)
    assert not held.connection.flow.read_paused


@pytest.mark.parametrize("size", [1, 1_000, 1_800, 100_000])
async def test_bodies_among_pipelined_requests_are_taken_whole(held, size):
    post = f"POST /ack HTTP/1.1\r\nHost: acker\r\nContent-Length: {size}\r\n\r\n".encode()
    await held.feed((post + b"x" * size + SHORTEST * 99) * 5)
    assert len(held.connection.pipeline) <= MAX_PIPELINED
    await held.answer_all(500)
    assert held.asked == ["/ack", *["/"] * 99] * 5


async def test_a_body_of_known_length_is_parsed_in_one_piece_and_no_further(held):
    sizes, parse = list[int](), held.connection._parse
    held.connection._parse = lambda data: (sizes.append(len(data)), parse(data))
    await held.feed(HEAD + b"x" * 100_000 + SHORTEST * 1_000)
    assert sizes == [SLICE, len(HEAD) + 100_000 - SLICE, SLICE]


async def test_what_comes_while_a_request_waits_is_parsed_in_its_turn(held):
    await held.feed(REQUEST * 2)
    for piece in (SHORTEST[:5], SHORTEST[5:], SHORTEST):
        await held.feed(piece)
    await held.answer_all(4)
    assert held.asked == ["/livez", "/livez", "/", "/"]


async def test_a_client_that_goes_takes_its_waiting_requests_with_it(held):
    await held.feed(REQUEST + SHORTEST * 200)
    held.transport.close()
    held.connection.connection_lost(None)
    held.answer.set()
    await held.settle()
    assert (held.transport.written, held.asked) == (b"", ["/livez"])
    assert (len(held.connection.pipeline), held.connection._pending) == (0, b"")


async def test_a_refusal_comes_after_the_answers_before_it(held):
    await held.feed(REQUEST + SHORTEST + NO_HTTP)
    held.clock.let_pass()
    assert (held.transport.written, held.transport.told) == (b"", ["pause"])
    await held.answer_all(2)
    assert held.transport.written.rpartition(b"HTTP/1.1 ")[2].startswith(b"400 ")
    assert held.transport.told[-1] == "eof"
    assert held.asked == ["/livez", "/"]


async def test_a_request_with_a_broken_body_is_refused_in_its_place_and_not_begun(held):
    await held.feed(REQUEST + CHUNKED + b"not a size\r\n")
    await held.answer_all(1)
    assert held.transport.written.rpartition(b"HTTP/1.1 ")[2].startswith(b"400 ")
    assert held.asked == ["/livez"]


NO_ADDRESS = [b"CONNECT acker:1", b"GET http://", b"GET http://acker:99999/", b"GET http://[::1/"]


@pytest.mark.parametrize("line", NO_ADDRESS)
@pytest.mark.parametrize("before", [0, 1])
async def test_a_first_line_without_an_address_that_can_be_read_is_refused(held, line, before):
    held.answer.set()
    await held.feed(REQUEST * before)
    await held.feed(line + b" HTTP/1.1\r\nHost: acker\r\n\r\n")
    assert held.transport.written.rpartition(b"HTTP/1.1 ")[2].startswith(b"400 ")
    assert held.transport.told == ["eof"]


@pytest.mark.parametrize("line", NO_ADDRESS)
async def test_the_requests_that_wait_before_it_are_all_answered(held, line):
    await held.feed(REQUEST + SHORTEST * 2 + line + b" HTTP/1.1\r\nHost: acker\r\n\r\n")
    await held.answer_all(3)
    assert held.transport.written.rpartition(b"HTTP/1.1 ")[2].startswith(b"400 ")
    assert held.asked == ["/livez", "/", "/"]


async def test_a_request_whose_body_breaks_is_refused_at_once_and_once(held):
    await held.feed(CHUNKED)
    await held.feed(b"not a size\r\n")
    assert held.transport.written.startswith(b"HTTP/1.1 400 ")
    await held.answer_all(0)
    assert held.transport.written.count(b"HTTP/1.1 ") == 1


async def test_a_request_that_is_answered_already_is_not_refused_besides(held):
    held.answer.set()
    await held.feed(CHUNKED)
    await held.feed(b"not a size\r\n")
    assert held.transport.written.count(b"HTTP/1.1 ") == 1
    assert held.transport.told == ["eof"]


async def test_a_body_after_its_answer_is_discarded_up_to_a_limit(held):
    held.answer.set()
    await held.feed(HEAD)
    await held.feed(b"x" * MAX_DISCARDED)
    assert held.transport.told == []
    await held.feed(b"x")
    assert held.transport.told == ["abort"]


async def test_each_body_has_that_limit_for_itself(held):
    held.answer.set()
    for _ in range(10):
        await held.feed(HEAD.replace(b"100000", str(MAX_DISCARDED).encode()))
        await held.feed(b"x" * MAX_DISCARDED)
    assert "abort" not in held.transport.told


async def test_a_connection_to_be_closed_is_read_until_the_client_has_the_answer(held):
    held.answer.set()
    await held.feed(CLOSING)
    await held.feed(b"x" * MAX_DISCARDED)
    assert held.transport.told == ["eof"]
    assert held.clock.running() == [TIMEOUT_S]
    held.clock.let_pass()
    assert held.transport.told == ["eof", "close"]


async def test_it_is_not_read_beyond_that_limit(held):
    held.answer.set()
    await held.feed(CLOSING)
    await held.feed(b"x" * (MAX_DISCARDED + 1))
    assert held.transport.told == ["eof", "abort"]


async def test_a_refused_head_is_not_read_beyond_it_either(held):
    await held.feed(NO_HTTP)
    await held.feed(b"x" * (MAX_DISCARDED + 1))
    assert held.transport.told == ["eof", "abort"]


async def test_what_is_pipelined_behind_a_last_request_is_discarded(held):
    await held.feed(REQUEST.replace(b"Host", b"Connection: close\r\nHost") + SHORTEST * 200)
    await held.answer_all(1)
    assert held.transport.told == ["close"]
    assert held.transport.written.count(b"HTTP/1.1 ") == 1
    assert held.asked == ["/livez"]


async def test_it_is_not_read_without_end_while_the_last_request_is_answered(held):
    await held.feed(REQUEST.replace(b"Host", b"Connection: close\r\nHost"))
    for _ in range(MAX_DISCARDED // len(SHORTEST * 50)):
        await held.feed(SHORTEST * 50)
    assert held.transport.told == []
    await held.feed(SHORTEST * 50)
    await held.feed(SHORTEST * 50)
    assert held.transport.told[0] == "abort"


async def test_a_connection_that_is_closed_while_a_request_waits_is_read_on(held):
    await held.feed(REQUEST + SHORTEST * 200)
    held.connection._running.keep_alive = False
    await held.answer_all(1)
    assert held.transport.told == ["pause", "eof", "resume"]
    assert held.asked == ["/livez"]


async def test_a_connection_to_be_closed_is_closed_at_once_if_the_request_is_here(held):
    held.answer.set()
    await held.feed(REQUEST.replace(b"Host", b"Connection: close\r\nHost"))
    assert held.transport.told == ["close"]


async def test_a_stop_waits_for_no_input(held):
    held.answer.set()
    await held.feed(CLOSING)
    held.connection.shutdown()
    assert held.transport.told == ["eof", "close"]


async def test_once_the_process_stops_only_the_last_of_pipelined_answers_closes(held):
    await held.feed(REQUEST * 2)
    held.stopping.set()
    held.connection.announce_close()
    await held.feed(REQUEST * 2)
    await held.answer_all(4)
    *others, last = held.transport.written.split(b"HTTP/1.1 200")[1:]
    assert ([b"connection: close" in other for other in others], b"connection: close" in last) == ([False] * 3, True)
    assert held.is_closed


async def test_an_answer_that_has_begun_when_the_process_stops_leaves_its_connection_open(held):
    held.answer.set()
    await held.feed(REQUEST)
    held.stopping.set()
    held.connection.announce_close()
    assert not held.is_closed
    await held.feed(REQUEST)
    assert held.transport.written.count(b"connection: close") == 1
    assert held.is_closed


async def test_a_head_that_grows_while_the_process_stops_is_refused_as_ever(held):
    await held.feed(REQUEST)
    held.stopping.set()
    held.connection.announce_close()
    await held.feed(b"GET / HTTP/1.1\r\nX: " + b"x" * 2_000)
    assert held.connection._refusal is not None


async def test_once_the_drain_is_over_no_request_is_begun_behind_the_last_one(held):
    await held.feed(REQUEST * 2)
    held.stopping.set()
    held.connection.announce_close()
    held.connection.shutdown()
    await held.feed(REQUEST * 200)
    held.answer.set()
    for _ in range(20):
        await held.settle()
    first, last = held.transport.written.split(b"HTTP/1.1 200")[1:]
    assert (b"connection: close" in first, b"connection: close" in last) == (False, True)
    assert held.asked == ["/livez"] * 2
    assert held.transport.told[-2:] == ["eof", "resume"]
