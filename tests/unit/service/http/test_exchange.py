"""Tests the answer in one write, on a transport that the test holds, beside uvicorn's answer of the same request."""

from typing import Any

import pytest
from acker_service.http.answers import Answer
from acker_service.http.exchange import CYCLE, whole_body, write_answer

from tests.support.connections import Held

pytestmark = pytest.mark.anyio

HEADERS = [(b"content-length", b"2"), (b"content-type", b"application/json")]
POST = b"POST /ack HTTP/1.1\r\nHost: acker\r\nX-Request-Id: r1\r\nContent-Length: 4\r\n\r\n"
BODY = b"body"


class Answering(Held):
    """A connection whose application answers at once, by itself or as applications do."""

    def __init__(self, *, at_once: bool = True) -> None:
        super().__init__()
        self.at_once = at_once
        self.bodies = list[bytes | None]()
        self.writes = list[bytes]()
        self.connection.transport.write = self.writes.append  # type: ignore[method-assign]

    async def _app(self, scope: Any, _receive: Any, send: Any) -> None:
        self.bodies.append(whole_body(scope[CYCLE]))
        if self.at_once:
            write_answer(scope[CYCLE], Answer(status=200, headers=HEADERS, body=b"{}"))
        else:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await send({"type": "http.response.body", "body": b"{}"})


@pytest.fixture
async def both() -> tuple[Answering, Answering]:
    """A connection that answers in one write, and one that answers in uvicorn's two."""
    return Answering(), Answering(at_once=False)


async def feed(both: tuple[Answering, Answering], *parts: bytes) -> None:
    for held in both:
        for part in parts:
            await held.feed(part)


async def test_an_answer_is_written_at_once_with_the_same_bytes(both):
    await feed(both, POST + BODY)
    fast, slow = both
    assert (len(fast.writes), len(slow.writes)) == (1, 2)
    assert fast.writes == [b"".join(slow.writes)]


async def test_the_answer_to_a_head_names_its_length_and_has_no_body(both):
    await feed(both, b"HEAD /ack HTTP/1.1\r\nHost: acker\r\nX-Request-Id: r1\r\n\r\n")
    fast, slow = both
    assert fast.writes == [b"".join(slow.writes)]
    assert fast.writes[0].endswith(b"\r\n\r\n")


async def test_an_answer_before_leave_to_send_is_the_last_word(both):
    await feed(both, POST.replace(b"Host", b"Expect: 100-continue\r\nHost"), BODY)
    fast, slow = both
    assert fast.writes == [b"".join(slow.writes)]
    assert not fast.is_closed


async def test_default_headers_stand_before_those_of_the_answer(both):
    for held in both:
        held.connection.server_state.default_headers = [(b"date", b"now")]
    await feed(both, POST + BODY)
    fast, slow = both
    assert fast.writes == [b"".join(slow.writes)]
    assert b"date: now" in fast.writes[0]


async def test_the_next_request_follows(both):
    await feed(both, POST + BODY, POST + BODY)
    assert [len(held.writes) for held in both] == [2, 4]
    assert not any(held.is_closed for held in both)


async def test_pipelined_requests_are_answered_in_turn(both):
    await feed(both, (POST + BODY) * 3)
    fast, slow = both
    assert fast.bodies == [BODY] * 3
    assert b"".join(fast.writes) == b"".join(slow.writes)


async def test_the_last_answer_says_so_and_closes(both):
    await feed(both, POST.replace(b"Host", b"Connection: close\r\nHost") + BODY)
    fast, slow = both
    assert fast.writes == [b"".join(slow.writes)]
    assert b"connection: close" in fast.writes[0]
    assert fast.is_closed
    assert slow.is_closed


async def test_a_process_that_stops_says_so(both):
    for held in both:
        held.stopping.set()
    await feed(both, POST + BODY)
    fast, slow = both
    assert fast.writes == [b"".join(slow.writes)]
    assert b"connection: close" in fast.writes[0]


async def test_a_body_is_whole_once_all_of_it_has_arrived(both):
    await feed(both, POST + BODY[:3])
    assert [held.bodies for held in both] == [[None]] * 2


async def test_a_client_that_waits_for_leave_to_send_has_no_whole_body(both):
    await feed(both, POST.replace(b"Host", b"Expect: 100-continue\r\nHost") + BODY)
    assert [held.bodies for held in both] == [[None]] * 2


async def test_nothing_is_written_for_a_client_that_is_gone():
    held = Answering()
    held.connection.data_received(POST + BODY)
    held.connection.connection_lost(None)
    await held.settle()
    assert (held.bodies, held.writes) == ([None], [])
