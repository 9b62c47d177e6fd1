"""A request begins a root: each row of the table in docs/requests.md, with a real acker."""

import asyncio
import time
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

import httpx
import pytest
import uvicorn
from acker_client import Acker, AsyncAcker, Completion, UsageError
from acker_client._http import MAX_CONNECTIONS
from acker_client.integrations._status_token import HANDLE_BYTES, StatusTokens
from acker_client.integrations.asgi_spout import ROOT_KEY, STATUS_WAITS, SpoutMiddleware
from acker_client.propagate import inject
from fastapi import BackgroundTasks, FastAPI, Request, Response

from examples.support.ports import free_port
from tests.support.servers import AckerProcess
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

SECRET = "0123456789abcdef"

STRANGERS = 150
"""More than a client has connections."""

LONG = {"Prefer": "wait=1000"}
"""Longer than a test may take."""


class Shop:
    """An application whose requests send one message each, and a client of it."""

    def __init__(self, acker: AsyncAcker, **options) -> None:
        self.acker = acker
        self.sent: list[dict[str, str]] = []
        self.completed: list[Completion] = []
        self.app = FastAPI()
        self.app.add_middleware(
            SpoutMiddleware, acker=acker, spout="web", secret=SECRET, on_completed=self.completed.append, **options
        )
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app=self.app), base_url="http://shop", timeout=250)

    def send(self) -> None:
        """Send a message on: anchored to the current root."""
        inject(headers := {})
        self.sent.append(headers)

    async def process(self, *, reason: str = "") -> None:
        """Do what the last message asks for."""
        tup = self.acker.receive(self.sent[-1], component="charge")
        await (tup.fail(reason) if reason else tup.ack())

    async def finished(self, location: str) -> httpx.Response:
        """Ask for a status until it is that of an end."""

        async def ended() -> httpx.Response | None:
            answer = await self.http.get(location, headers={"Prefer": "wait=5"})
            return answer if answer.json().get("state") == "finished" else None

        found = await eventually(ended, within=100)
        assert found is not None
        return found


class Requests:
    """Requests that were sent at the same time."""

    def __init__(self, sent: Iterable[Awaitable[httpx.Response]]) -> None:
        self._tasks = [asyncio.ensure_future(each) for each in sent]

    @property
    def unanswered(self) -> int:
        return sum(not task.done() for task in self._tasks)

    async def until_unanswered(self, count: int) -> None:
        """Wait until no more than this number are not answered."""

        async def few() -> bool:
            return self.unanswered <= count

        await eventually(few)

    async def answers(self) -> list[httpx.Response]:
        return await asyncio.gather(*self._tasks)

    async def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture
async def acker(process: AckerProcess, client: Acker) -> AsyncIterator[AsyncAcker]:
    async with AsyncAcker(process.url, client.topology, linger=0) as acker:
        yield acker


@pytest.fixture
async def make(acker: AsyncAcker) -> AsyncIterator[Callable[..., Shop]]:
    made = []

    def making(**options) -> Shop:
        made.append(Shop(acker, **options))
        return made[-1]

    yield making
    for shop in made:
        await shop.http.aclose()


@pytest.fixture
async def shop(make: Callable[..., Shop]) -> Shop:
    shop = make()

    @shop.app.post("/orders", status_code=201)
    async def order() -> dict[str, int]:
        shop.send()
        return {"order": 17}

    return shop


async def test_a_request_is_answered_202_with_the_address_of_its_status(shop: Shop) -> None:
    begun = await shop.http.post("/orders")
    assert (begun.status_code, begun.json()) == (202, {"order": 17})
    pending = await shop.http.get(begun.headers["location"])
    assert (pending.status_code, pending.json()) == (200, {"state": "pending"})
    assert (pending.headers["retry-after"], pending.headers["cache-control"]) == ("1", "no-store")
    await shop.process()
    done = await shop.finished(begun.headers["location"])
    assert (done.status_code, done.json()) == (200, {"state": "finished", "outcome": "acked"})
    assert "retry-after" not in done.headers
    assert (await shop.http.head(begun.headers["location"])).content == b""


async def test_a_request_that_waits_gets_200_when_the_tree_is_done_in_time(shop: Shop) -> None:
    waiting = asyncio.create_task(shop.http.post("/orders", headers={"Prefer": "respond-async, wait=20"}))

    async def sent() -> bool:
        return bool(shop.sent)

    await eventually(sent)
    await shop.process()
    done = await waiting
    assert (done.status_code, done.json()) == (200, {"order": 17})
    assert done.headers["preference-applied"] == "wait=20"
    assert (await shop.finished(done.headers["location"])).json()["outcome"] == "acked"


async def test_a_request_that_waits_in_vain_gets_202(shop: Shop) -> None:
    answer = await shop.http.post("/orders", headers={"Prefer": "wait=1"})
    assert (answer.status_code, answer.json()) == (202, {"order": 17})


@pytest.mark.parametrize(("reason", "status", "outcome"), [("no", 500, "failed"), ("", 504, "timed_out")])
async def test_a_request_that_waits_gets_an_error_when_the_tree_fails_or_times_out(
    make: Callable[..., Shop], reason: str, status: int, outcome: str
) -> None:
    shop = make(message_timeout=300 if reason else 0.5)

    @shop.app.post("/orders")
    async def order(tasks: BackgroundTasks) -> None:
        shop.send()

    waiting = asyncio.create_task(shop.http.post("/orders", headers={"Prefer": "wait=30"}))
    if reason:

        async def sent() -> bool:
            return bool(shop.sent)

        await eventually(sent)
        await shop.process(reason=reason)
    answer = await waiting
    assert (answer.status_code, answer.json()) == (status, {"state": "finished", "outcome": outcome})


async def test_what_background_tasks_anchor_belongs_to_the_tree(make: Callable[..., Shop]) -> None:
    shop = make()

    @shop.app.post("/orders")
    async def order(tasks: BackgroundTasks) -> None:
        tasks.add_task(shop.send)

    begun = await shop.http.post("/orders")
    await shop.process()
    assert (await shop.finished(begun.headers["location"])).json()["outcome"] == "acked"


@pytest.mark.parametrize("status", [303, 404, 422, 503])
async def test_an_answer_that_is_no_success_passes_and_begins_nothing(make: Callable[..., Shop], status: int) -> None:
    shop, roots = make(), []

    @shop.app.post("/orders")
    async def order(request: Request) -> Response:
        roots.append(request.scope[ROOT_KEY].root_id)
        return Response("no", status_code=status)

    answer = await shop.http.post("/orders", follow_redirects=False)
    assert (answer.status_code, answer.text, "location" in answer.headers) == (status, "no", False)
    [spout] = [shop.acker.spout("web")]
    assert [completion async for completion in spout.completions(until=0)] == []


async def test_an_application_that_raises_begins_nothing(make: Callable[..., Shop]) -> None:
    shop = make()

    @shop.app.post("/orders")
    async def order() -> None:
        shop.send()
        raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        await shop.http.post("/orders")
    assert shop.completed == []


async def test_methods_that_begin_nothing_pass(make: Callable[..., Shop]) -> None:
    shop = make()

    @shop.app.get("/orders")
    async def orders() -> list[int]:
        return [17]

    answer = await shop.http.get("/orders")
    assert (answer.status_code, answer.json(), "location" in answer.headers) == (200, [17], False)


@pytest.fixture
def taking_orders(make: Callable[..., Shop]) -> Callable[..., Shop]:
    """Make a shop whose orders send a message."""

    def making(**options) -> Shop:
        shop = make(max_wait=1_000, **options)

        @shop.app.post("/orders")
        async def order() -> None:
            shop.send()

        return shop

    return making


async def begin(shop: Shop) -> str:
    """Begin a root, and return where its status is."""
    begun = await shop.http.post("/orders")
    assert begun.status_code == 202
    return begun.headers["location"]


async def end_all(*shops: Shop) -> None:
    for shop in shops:
        for headers in shop.sent:
            await shop.acker.receive(headers, component="charge").ack()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_strangers_who_wait_for_a_status_leave_connections_for_the_inits_of_others(
    taking_orders: Callable[..., Shop], method: str
) -> None:
    shop = taking_orders()
    location = await begin(shop)
    waits = Requests(shop.http.request(method, location, headers=LONG) for _ in range(STRANGERS))
    await waits.until_unanswered(20)
    await begin(shop)
    assert waits.unanswered == 20
    await end_all(shop)
    answers = await waits.answers()
    assert [answer.status_code for answer in answers] == [200] * STRANGERS
    assert sum("retry-after" in answer.headers for answer in answers) == STRANGERS - 20


async def test_the_bound_holds_for_the_statuses_of_many_roots_and_of_all_middleware_of_a_client(
    taking_orders: Callable[..., Shop],
) -> None:
    shops = [taking_orders() for _ in range(3)]
    asked = [(shop, await begin(shop)) for shop in shops for _ in range(STRANGERS // 3)]
    waits = Requests(shop.http.get(location, headers=LONG) for shop, location in asked)
    await waits.until_unanswered(20)
    for shop in shops:
        await begin(shop)
    assert waits.unanswered == 20
    await end_all(*shops)
    states = [answer.json()["state"] for answer in await waits.answers()]
    assert (states.count("finished"), states.count("pending")) == (20, STRANGERS - 20)


async def test_strangers_whose_requests_wait_for_their_own_trees_have_no_connection(
    taking_orders: Callable[..., Shop],
) -> None:
    shop = taking_orders()
    waits = Requests(shop.http.post("/orders", headers=LONG) for _ in range(STRANGERS))

    async def all_sent() -> bool:
        return len(shop.sent) == STRANGERS

    await eventually(all_sent)
    await begin(shop)
    assert waits.unanswered == STRANGERS
    await end_all(shop)
    assert {answer.status_code for answer in await waits.answers()} == {200}


async def end_by_time(shop: Shop) -> None:
    answer = await shop.http.get(await begin(shop), headers={"Prefer": "wait=1"})
    assert answer.json() == {"state": "pending"}


async def end_by_an_error(shop: Shop) -> None:
    tokens = StatusTokens(SECRET, topology=shop.acker.topology, lifetime_s=3_600)
    unknown = tokens.make("00000000000000aa", handle=bytes(HANDLE_BYTES), now_s=time.time())
    assert (await shop.http.get(f"/status/{unknown}", headers=LONG)).status_code == 410


async def end_by_a_cancellation(shop: Shop) -> None:
    location = await begin(shop)
    waits = Requests(shop.http.get(location, headers=LONG) for _ in range(2))
    await waits.until_unanswered(1)
    await waits.cancel()


@pytest.mark.parametrize("end", [end_by_time, end_by_an_error, end_by_a_cancellation])
async def test_after_a_wait_has_ended_another_may_begin(
    taking_orders: Callable[..., Shop], end: Callable[[Shop], Awaitable[None]]
) -> None:
    shop = taking_orders(max_status_waits=1)
    await end(shop)
    location = await begin(shop)
    waits = Requests(shop.http.get(location, headers=LONG) for _ in range(2))
    await waits.until_unanswered(1)
    await end_all(shop)
    assert sorted(answer.json()["state"] for answer in await waits.answers()) == ["finished", "pending"]


async def test_where_none_may_wait_a_status_is_answered_at_once(taking_orders: Callable[..., Shop]) -> None:
    shop = taking_orders(max_status_waits=0)
    assert (await shop.http.get(await begin(shop), headers=LONG)).json() == {"state": "pending"}


@pytest.mark.parametrize("wrong", [-1, STATUS_WAITS.stop, True, 2.5, "20", None])
async def test_a_number_of_waits_that_leaves_too_few_connections_is_refused_at_the_start(
    acker: AsyncAcker, wrong: object
) -> None:
    assert STATUS_WAITS[-1] == MAX_CONNECTIONS // 2
    with pytest.raises(UsageError, match="max_status_waits must be a whole number from 0 to 50"):
        SpoutMiddleware(FastAPI(), acker=acker, spout="web", secret=SECRET, max_status_waits=wrong)


async def test_another_process_with_the_same_secret_answers_the_status(shop: Shop, make: Callable[..., Shop]) -> None:
    begun = await shop.http.post("/orders")
    await shop.process()
    assert (await make().finished(begun.headers["location"])).json()["outcome"] == "acked"


async def test_neither_the_answer_nor_the_address_of_the_status_tells_the_root_id(make: Callable[..., Shop]) -> None:
    shop, roots = make(), list[str]()

    @shop.app.post("/orders")
    async def order(request: Request) -> None:
        roots.append(request.scope[ROOT_KEY].root_id)
        shop.send()

    begun = await shop.http.post("/orders")
    status = await shop.http.get(begun.headers["location"])
    [root_id] = roots
    token = urlsafe_b64decode(begun.headers["location"].rpartition("/")[2])
    assert bytes.fromhex(root_id) not in token
    for answer in (begun, status):
        assert root_id not in f"{answer.headers} {answer.text}"


async def test_a_status_with_a_token_of_somebody_s_own_making_is_404(shop: Shop) -> None:
    begun = await shop.http.post("/orders")
    location = begun.headers["location"]
    for wrong in (location[:-4] + "AAAA", "/status/", "/status/x/y", f"/status/{'A' * 64}"):
        assert (await shop.http.get(wrong)).status_code == 404, wrong
    assert (await shop.http.post(location)).status_code == 405


async def test_a_status_that_is_no_longer_remembered_is_410(make: Callable[..., Shop], acker: AsyncAcker) -> None:
    await acker.topologies.create(acker.topology, retention=1)
    shop = make()

    @shop.app.post("/orders")
    async def order() -> None:
        shop.send()

    begun = await shop.http.post("/orders")
    await shop.process()

    async def gone() -> bool:
        return (await shop.http.get(begun.headers["location"])).status_code == 410

    assert await eventually(gone, within=100)


async def test_a_token_that_has_expired_is_410(make: Callable[..., Shop]) -> None:
    shop = make(token_lifetime=0)

    @shop.app.post("/orders")
    async def order() -> None:
        shop.send()

    begun = await shop.http.post("/orders")
    assert (await shop.http.get(begun.headers["location"])).status_code == 410


async def test_a_request_beyond_the_cap_is_refused_with_429_and_503_without_an_acker(
    shop: Shop, acker: AsyncAcker, process: AckerProcess
) -> None:
    await acker.topologies.create(acker.topology, max_spout_pending=1)
    async with AsyncAcker(process.url, acker.topology, emit_timeout=0.1) as hasty:
        full = Shop(hasty)

        @full.app.post("/orders")
        async def order() -> None:
            full.send()

        assert (await full.http.post("/orders")).status_code == 202
        refused = await full.http.post("/orders")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        await full.http.aclose()
    async with AsyncAcker(f"http://127.0.0.1:{free_port()}", startup_timeout=0.1, retry_timeout=0.1) as nowhere:
        lost = Shop(nowhere)
        assert (await lost.http.post("/orders")).status_code == 503
        await lost.http.aclose()


async def test_the_mailbox_is_read_so_that_it_does_not_fill_up(shop: Shop) -> None:
    for _ in range(3):
        await shop.http.post("/orders")
        await shop.process()

    async def completed() -> bool:
        return len(shop.completed) == 3

    assert await eventually(completed)
    assert all(completion.acked for completion in shop.completed)


async def test_under_a_real_server_and_below_a_root_path_the_location_leads_to_the_status(shop: Shop) -> None:
    outer = FastAPI()
    outer.mount("/shop", shop.app)
    async with serving(outer) as url, httpx.AsyncClient(base_url=url, timeout=100) as http:
        begun = await http.post("/shop/orders")
        assert begun.headers["location"].startswith("/shop/status/")
        assert (await http.get(begun.headers["location"])).json() == {"state": "pending"}


async def test_the_end_of_the_server_ends_the_reader(shop: Shop) -> None:
    async with serving(shop.app) as url, httpx.AsyncClient(base_url=url, timeout=100) as http:
        await http.post("/orders")
    names = [task.get_coro().__qualname__ for task in asyncio.all_tasks()]
    assert "SpoutMiddleware._read" not in names


@asynccontextmanager
async def serving(app: FastAPI) -> AsyncIterator[str]:
    """Serve an application on a port of its own, in this loop, and yield its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=free_port(), log_config=None))
    task = asyncio.create_task(server.serve())

    async def started() -> bool:
        return server.started

    await eventually(started)
    try:
        yield f"http://127.0.0.1:{server.config.port}"
    finally:
        server.should_exit = True
        await task
