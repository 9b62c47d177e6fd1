"""Tests which requests, bodies and waits are refused over the limits of the process."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from acker_protocol.errors import InvalidRequest, Overloaded
from acker_service.http import load_shedding, problems
from acker_service.http.client_transport import PipelineFlowControl
from acker_service.http.load_shedding import FLOW, BoundedBody, Capacity, Load, LoadLimits, waits
from acker_service.metrics.metrics import Metrics
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from starlette.types import Message

pytestmark = pytest.mark.anyio


def test_places_are_taken_until_there_are_none():
    places = Capacity(2, what="requests")
    places.acquire()
    places.acquire()
    with pytest.raises(Overloaded, match="2 requests") as refused:
        places.acquire()
    assert refused.value.retryable


def test_a_refusal_takes_nothing():
    places = Capacity(10, what="bytes")
    places.acquire(8)
    with pytest.raises(Overloaded):
        places.acquire(3)
    places.acquire(2)
    assert places.used == 10


def test_a_place_given_back_can_be_taken_again():
    places = Capacity(1, what="requests")
    places.acquire()
    places.release()
    places.acquire()
    assert places.used == 1


class Busy:
    """An application that holds every request until told to let it go."""

    def __init__(self, **limits: Any) -> None:
        self.app = FastAPI()
        self.go = asyncio.Event()
        self.entered = asyncio.Queue[str]()
        self.ended = asyncio.Event()
        for path in ("/work", "/livez", "/readyz", "/metrics", "/spouts/orders/completions"):
            self.app.add_api_route(path, self.work, methods=["GET", "POST"])
        self.app.add_api_route("/v1/events", self.stream)
        load_shedding.install(self.app, limits=LoadLimits(**limits), metrics=Metrics().http)
        problems.install(self.app)

    async def work(self, request: Request) -> str:
        body = await request.body() if request.method == "POST" else b""
        self.entered.put_nowait(request.url.path)
        await self.go.wait()
        return str(len(body))

    async def stream(self) -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            self.entered.put_nowait("/v1/events")
            await self.go.wait()
            yield b"part"
            await self.ended.wait()

        return StreamingResponse(parts())


@contextlib.asynccontextmanager
async def held(busy: Busy, *paths: str, **more: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Requests that are in the application until the block is left, then answered."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=busy.app), base_url="http://acker") as client:
        method = "POST" if more else "GET"
        tasks = [asyncio.create_task(client.request(method, path, **more)) for path in paths]
        for _ in paths:
            await busy.entered.get()
        yield client
        busy.go.set()
        answers = await asyncio.gather(*tasks)
        assert all(answer.is_success for answer in answers)


LONG_POLL = "/spouts/orders/completions?wait_ms=1000"


@pytest.mark.parametrize(("taken", "held", "has_room"), [(1, 60, True), (2, 0, False), (0, 61, False), (2, 61, False)])
def test_a_whole_request_uses_a_place_and_the_bytes_of_its_body_or_neither(taken, held, has_room):
    load = Load(LoadLimits(max_in_flight=2, max_in_flight_bytes=100), Metrics().http)
    load.in_flight.acquire(taken)
    load.bytes.acquire(held)
    assert load.begin(40) is has_room
    assert (load.in_flight.used, load.bytes.used) == (taken + has_room, held + 40 * has_room)
    if has_room:
        load.end(40)
        assert (load.in_flight.used, load.bytes.used) == (taken, held)


async def test_a_request_too_many_is_refused_at_once_and_may_be_sent_again():
    async with held(busy := Busy(max_in_flight=2), "/work", "/work") as client:
        refused = await client.post("/work", json={})
        problem = refused.json()
        assert (refused.status_code, problem["code"], problem["retryable"]) == (503, "overloaded", True)
        assert (refused.headers["Retry-After"], problem["retry_after_ms"]) == ("1", 1000)
        assert busy.entered.empty()


async def test_an_answer_makes_place_for_the_next():
    busy = Busy(max_in_flight=1)
    async with held(busy, "/work"):
        pass
    async with held(busy, "/work"):
        pass


async def test_a_fault_makes_place_for_the_next():
    busy = Busy(max_in_flight=1)
    busy.go = None  # type: ignore[assignment]
    transport = httpx.ASGITransport(app=busy.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://acker") as client:
        assert [(await client.get("/work")).status_code for _ in range(3)] == [500, 500, 500]


async def test_who_watches_the_process_is_always_answered():
    async with held(Busy(max_in_flight=1, max_waiting=0), "/work", "/livez", "/readyz", "/metrics"):
        pass


async def test_those_who_wait_have_places_of_their_own():
    async with held(Busy(max_in_flight=1, max_waiting=2), "/work", LONG_POLL, LONG_POLL) as client:
        assert (await client.get(LONG_POLL)).json()["code"] == "overloaded"
        assert (await client.get("/spouts/orders/completions")).json()["code"] == "overloaded"


async def test_those_who_work_leave_places_to_those_who_wait():
    async with held(Busy(max_in_flight=1, max_waiting=1), LONG_POLL, "/work") as client:
        assert (await client.get("/work")).json()["code"] == "overloaded"


def test_what_is_discarded_after_an_early_answer_follows_the_largest_body():
    assert LoadLimits(max_body_bytes=1_000).max_discarded_bytes == 16_000


@pytest.mark.parametrize(("waiting", "streams"), [(10_000, 500), (40, 2), (39, 1), (1, 1)])
def test_one_of_twenty_requests_that_wait_and_at_least_one_may_be_a_stream_of_live_events(
    waiting: int, streams: int
) -> None:
    assert LoadLimits(max_waiting=waiting).max_event_streams == streams


class Flow(PipelineFlowControl):
    """The flow control of a connection; the test says how much of its answer is left."""

    def __init__(self, unsent: int = 1) -> None:
        super().__init__(asyncio.Transport(), ())
        self.left = unsent
        self.is_given_up = False

    @property
    def unsent(self) -> int:
        return self.left

    def give_up(self) -> None:
        self.is_given_up = True
        self.resume_writing()


def client_on(busy: Busy, flow: Flow) -> httpx.AsyncClient:
    async def on_a_connection(scope: Any, receive: Any, send: Any) -> None:
        await busy.app({**scope, FLOW: flow}, receive, send)

    return httpx.AsyncClient(transport=httpx.ASGITransport(app=on_a_connection), base_url="http://acker")


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def leave_unread(busy: Busy, flow: Flow, path: str = "/work") -> "asyncio.Task[httpx.Response]":
    """Ask for an answer, and take nothing of it."""
    busy.go.clear()
    unread = asyncio.create_task(client_on(busy, flow).get(path))
    await busy.entered.get()
    flow.pause_writing()
    busy.go.set()
    await settle()
    return unread


async def test_an_answer_keeps_its_place_until_the_client_has_taken_it():
    busy, flow, other = Busy(max_in_flight=1), Flow(), Flow()
    unread = await leave_unread(busy, flow)
    assert (await client_on(busy, other).get("/work")).json()["code"] == "overloaded"
    flow.resume_writing()
    assert (await unread).is_success
    assert (await client_on(busy, other).get("/work")).is_success


@pytest.mark.parametrize("path", ["/work", LONG_POLL, "/metrics"])
async def test_the_next_request_of_a_connection_begins_once_the_client_has_taken_the_answer_before_it(path):
    busy, flow = Busy(max_in_flight=1, max_waiting=0), Flow()
    unread = await leave_unread(busy, flow)
    following = asyncio.create_task(client_on(busy, flow).get(path))
    await settle()
    assert busy.entered.empty()
    assert not following.done()
    flow.resume_writing()
    assert (await unread).is_success
    assert (await following).is_success == (path != LONG_POLL)


async def test_unread_answers_hold_so_many_bytes_and_the_one_that_waits_longest_is_given_up():
    busy, flows = Busy(max_in_flight_bytes=100), [Flow(unsent=50) for _ in range(4)]
    unread = [await leave_unread(busy, flow) for flow in flows]
    assert [flow.is_given_up for flow in flows] == [True, True, False, False]
    for flow in flows:
        flow.resume_writing()
    await asyncio.gather(*unread)
    again = Flow(unsent=100)
    last = await leave_unread(busy, again)
    assert not again.is_given_up
    again.resume_writing()
    await last


async def test_unread_answers_to_whoever_watches_the_process_hold_as_many_bytes_with_the_others():
    paths = ("/metrics", "/work", "/readyz", "/metrics", "/livez")
    busy, flows = Busy(max_in_flight_bytes=100), [Flow(unsent=50) for _ in paths]
    unread = [await leave_unread(busy, flow, path) for flow, path in zip(flows, paths, strict=True)]
    assert [flow.is_given_up for flow in flows] == [True, True, True, False, False]
    for flow in flows:
        flow.resume_writing()
    assert all(answer.is_success for answer in await asyncio.gather(*unread))


async def test_a_part_of_a_stream_that_is_not_read_holds_as_many_bytes_with_the_others():
    busy, paths = Busy(max_in_flight_bytes=100), ("/v1/events", "/v1/events", "/work", "/v1/events")
    flows = [Flow(unsent=50) for _ in paths]
    unread = [await leave_unread(busy, flow, path) for flow, path in zip(flows, paths, strict=True)]
    assert [flow.is_given_up for flow in flows] == [True, True, False, False]
    for flow in flows:
        flow.resume_writing()
    busy.ended.set()
    assert all(answer.is_success for answer in await asyncio.gather(*unread))


async def test_what_a_client_has_taken_meanwhile_is_not_counted():
    busy, slow, other = Busy(max_in_flight_bytes=100), Flow(unsent=90), Flow(unsent=50)
    unread = [await leave_unread(busy, slow)]
    slow.left = 50
    unread.append(await leave_unread(busy, other))
    assert not slow.is_given_up
    for flow in (slow, other):
        flow.resume_writing()
    await asyncio.gather(*unread)


async def test_a_single_unread_answer_may_be_as_large_as_it_is():
    busy, flow = Busy(max_in_flight_bytes=100), Flow(unsent=10_000)
    unread = await leave_unread(busy, flow)
    assert not flow.is_given_up
    flow.resume_writing()
    assert (await unread).is_success


async def test_a_body_that_finds_no_room_is_refused():
    async with held(Busy(max_in_flight_bytes=100), "/work", content=b"x" * 60) as client:
        refused = await client.post("/work", content=b"x" * 41)
        assert (refused.status_code, refused.json()["code"], refused.json()["retryable"]) == (503, "overloaded", True)


async def test_room_is_given_back_with_the_answer():
    busy = Busy(max_in_flight_bytes=100)
    for _ in range(2):
        async with held(busy, "/work", content=b"x" * 100):
            pass


async def test_a_body_refused_in_its_middle_gives_back_what_it_held():
    async def parts() -> AsyncIterator[bytes]:
        yield b"x" * 60
        yield b"x" * 60

    busy = Busy(max_in_flight_bytes=100)
    async with held(busy) as client:
        assert (await client.post("/work", content=parts())).status_code == 503
    async with held(busy, "/work", content=b"x" * 100):
        pass


async def test_what_follows_a_complete_body_is_passed_on_without_a_limit():
    messages = iter([{"type": "http.request", "body": b"x"}, {"type": "http.disconnect"}])

    async def receive() -> Message:
        return next(messages)

    body = BoundedBody(receive, Capacity(1, what="bytes"), 60.0, Metrics().http)
    assert [(await body.receive())["type"] for _ in range(2)] == ["http.request", "http.disconnect"]


async def test_a_body_that_does_not_come_is_refused_and_may_be_sent_again():
    async def endless() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    async with held(Busy(body_timeout_s=0.01)) as client:
        refused = await client.post("/work", content=endless())
        assert (refused.status_code, refused.json()["code"], refused.json()["retryable"]) == (422, "invalid", True)


async def test_a_body_that_has_not_come_when_the_process_ends_is_refused_and_may_be_sent_again():
    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    receiving = asyncio.create_task(BoundedBody(receive, Capacity(1, what="bytes"), 60.0, Metrics().http).receive())
    await asyncio.sleep(0)
    receiving.cancel()
    with pytest.raises(InvalidRequest, match="nothing was done") as refusal:
        await receiving
    assert refusal.value.retryable


@pytest.mark.parametrize(
    ("method", "target", "accept", "expected"),
    [
        ("GET", "/v1/topologies/t/spouts/s/completions?wait_ms=1", None, True),
        ("GET", "/v1/topologies/t/spouts/s/completions?limit=5&wait_ms=30000", None, True),
        ("GET", "/v1/topologies/t/spouts/s/completions?wait%5Fms=30", None, True),
        ("GET", "/v1/topologies/t/spouts/s/completions?wait_ms=0", None, False),
        ("GET", "/v1/topologies/t/spouts/s/completions?wait_ms=00", None, False),
        ("GET", "/v1/topologies/t/spouts/s/completions", None, False),
        ("GET", "/v1/topologies/t/spouts/s/completions", "text/event-stream", True),
        ("GET", "/v1/topologies/t/roots/00000000000000a1?wait_ms=30000", None, True),
        ("GET", "/v1/topologies/t/roots?wait_ms=30000", None, False),
        ("GET", "/v1/topologies?wait_ms=30000", "text/event-stream", False),
        ("POST", "/v1/topologies/t/spouts/s/completions?wait_ms=1", None, False),
    ],
)
def test_only_what_can_wait_and_asks_to_counts_as_waiting(method, target, accept, expected):
    path, _, query = target.partition("?")
    headers = [] if accept is None else [(b"accept", accept.encode())]
    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": headers}
    assert waits(scope) is expected


@pytest.mark.parametrize(("method", "waiting"), [("GET", True), ("POST", False)])
async def test_the_stream_of_live_events_waits(method: str, *, waiting: bool) -> None:
    scope = {"type": "http", "method": method, "path": "/v1/events", "query_string": b"", "headers": []}
    assert waits(scope) is waiting
