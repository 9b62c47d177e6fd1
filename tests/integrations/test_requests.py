"""A request begins a root: each row of the table in docs/requests.md, with a real acker."""

import asyncio
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx
import pytest
import uvicorn
from acker_client import Acker, AsyncAcker, Completion
from acker_client.integrations.asgi_spout import ROOT_KEY, SpoutMiddleware
from acker_client.propagate import inject
from fastapi import BackgroundTasks, FastAPI, Request, Response

from examples.support.ports import free_port
from tests.support.servers import AckerProcess
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

SECRET = "0123456789abcdef"


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
