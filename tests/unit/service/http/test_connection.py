"""Tests what a connection does with time and with bytes, on a transport and a clock that the test holds."""

import json

import pytest

from tests.support.connections import HEAD, REQUEST, TIMEOUT_S, Held

pytestmark = pytest.mark.anyio


@pytest.fixture
async def held() -> Held:
    return Held()


async def test_a_head_has_its_time_from_the_connection_on(held):
    await held.feed(REQUEST[:10])
    assert held.clock.running() == [TIMEOUT_S]
    held.clock.let_pass()
    assert held.is_closed


async def test_a_request_that_has_arrived_is_answered_in_its_own_time(held):
    await held.feed(REQUEST)
    assert held.clock.running() == []


async def test_an_answered_connection_is_kept_for_the_next_request(held):
    held.answer.set()
    await held.feed(REQUEST)
    assert held.clock.running() == [75]
    await held.feed(REQUEST)
    assert held.clock.running() == [75]
    assert held.transport.written.count(b"200 OK") == 2


async def test_the_next_head_has_its_time_from_its_first_byte_on(held):
    held.answer.set()
    await held.feed(REQUEST)
    await held.feed(REQUEST[:1])
    timers = list(held.clock.timers)
    await held.feed(REQUEST[1:2])
    assert held.clock.timers == timers
    assert held.clock.running() == [TIMEOUT_S]


async def test_a_body_that_comes_late_is_the_applications_to_refuse(held):
    await held.feed(HEAD)
    held.clock.let_pass()
    assert not held.is_closed
    held.answer.set()
    await held.settle()
    held.clock.let_pass()
    assert held.is_closed


async def test_a_body_that_we_do_not_read_is_not_late(held):
    held.answer.set()
    await held.feed(REQUEST)
    await held.feed(HEAD[:10])
    held.connection.flow.pause_reading()
    held.clock.let_pass()
    assert not held.is_closed
    held.connection.flow.resume_reading()
    held.clock.let_pass()
    assert held.is_closed


async def test_a_client_that_goes_leaves_no_timer(held):
    await held.feed(REQUEST[:10])
    held.connection.connection_lost(None)
    assert held.clock.running() == []


@pytest.mark.parametrize("end", [pytest.param(b"", id="endless"), pytest.param(b"\r\n\r\n", id="ended")])
async def test_a_refused_client_is_answered_once_and_read_away_before_the_connection_is_closed(held, end):
    await held.feed(REQUEST[:-2] + b"a: " + b"x" * 1_000 + end)
    for _ in range(5):
        await held.feed(b"x" * 1_000)
    head, _, body = held.transport.written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 ")
    assert json.loads(body)["code"] == "too_large"
    assert held.transport.told == ["eof"]
    assert held.clock.running() == [TIMEOUT_S]
    held.clock.let_pass()
    assert held.is_closed


async def test_a_head_in_many_pieces_is_bounded_as_one_in_few(held):
    await held.feed(REQUEST[:-2] + b"a: ")
    for _ in range(1_000 - len(REQUEST) + 2 - len(b"a: ")):
        await held.feed(b"x")
    assert held.transport.written == b""
    await held.feed(b"x")
    assert held.transport.written.startswith(b"HTTP/1.1 431 ")


async def test_a_client_that_does_not_read_is_watched_until_it_does(held):
    await held.feed(REQUEST)
    held.transport.unsent = 100_000
    held.connection.pause_writing()
    assert held.clock.running() == [TIMEOUT_S / 4]
    held.transport.unsent = 10_000
    held.connection.resume_writing()
    assert held.clock.running() == []


async def test_an_unread_rest_is_watched_from_the_close_on(held):
    await held.feed(REQUEST)
    held.transport.unsent = 100_000
    held.connection.pause_writing()
    held.transport.close()
    held.connection.resume_writing()
    assert held.clock.running() == [TIMEOUT_S / 4]
    held.connection.connection_lost(None)
    assert held.clock.running() == []


async def test_so_is_the_rest_for_a_client_that_has_ended_its_side(held):
    await held.feed(REQUEST)
    held.transport.unsent = 1
    held.connection.eof_received()
    assert held.clock.running() == [TIMEOUT_S / 4]


async def test_the_scope_of_a_request_has_the_flow_control_of_its_connection(held):
    await held.feed(REQUEST)
    assert held.flows == [held.connection.flow]
