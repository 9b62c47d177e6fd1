"""Anchors go from service to service by themselves: real servers, hooked clients, a real acker."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import httpx
import pytest
import uvicorn
from acker_client import AsyncAcker, AsyncSpout, Outcome
from acker_client.completions import Completion
from acker_client.integrations.asgi import AckerMiddleware
from acker_client.integrations.httpx import KEY, ainject_request, inject_request
from acker_client.propagate import use
from fastapi import BackgroundTasks, FastAPI, Request
from starlette.responses import StreamingResponse

from tests.support.servers import AckerProcess, acker_serve, free_port
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AckerProcess]:
    folder = tmp_path_factory.mktemp("acker")
    with acker_serve(folder, "--data-dir", str(folder / "data")) as acker:
        acker.http.put("/v1/topologies/again", json={"dedupe_window_ms": 60_000}).raise_for_status()
        yield acker


@pytest.fixture
async def acker(process: AckerProcess) -> AsyncIterator[AsyncAcker]:
    async with AsyncAcker(process.url) as acker:
        yield acker


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(event_hooks={"request": [ainject_request]}, timeout=20) as http:
        yield http


@asynccontextmanager
async def serving(app: FastAPI) -> AsyncIterator[str]:
    """Serve an application on a port of its own, in this loop, and yield its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=free_port(), log_config=None))
    task = asyncio.create_task(server.serve())

    async def started() -> bool:
        return server.started

    await eventually(started)
    try:
        yield f"http://127.0.0.1:{server.config.port}/"
    finally:
        server.should_exit = True
        await task


class Services:
    """Services of one acker, each a component; give them a handler each."""

    def __init__(self, acker: AsyncAcker, **options: str) -> None:
        self.acker = acker
        self.options = options
        self.stack = AsyncExitStack()

    async def serve(self, component: str, handler: Callable[..., object]) -> str:
        app = FastAPI()
        app.add_middleware(AckerMiddleware, acker=self.acker, component=component, **self.options)
        app.post("/", response_model=None)(handler)
        return await self.stack.enter_async_context(serving(app))


@pytest.fixture
async def services(acker: AsyncAcker) -> AsyncIterator[Services]:
    services = Services(acker)
    async with services.stack:
        yield services


async def emit(acker: AsyncAcker, send: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[Completion]]:
    """Emit a root with the requests that are sent meanwhile, and return what waits for its completion."""
    spout = acker.spout("shop")
    async with spout.emit(message_id="42", message_timeout=60) as root:
        with use(root):
            await send()

    return partial(only, spout)


async def only(spout: AsyncSpout) -> Completion:
    """Return the one completion of a spout."""
    found = list[Completion]()
    async for done in spout.completions(until=20, stop=lambda: bool(found)):
        found.append(done)
    [done] = found
    return done


async def root_of(process: AckerProcess, root_id: str) -> httpx.Response:
    async with httpx.AsyncClient(timeout=20) as http:
        return await http.get(f"{process.url}/v1/topologies/default/roots/{root_id}")


async def state(process: AckerProcess, root_id: str) -> str:
    return str((await root_of(process, root_id)).json()["state"])


async def test_a_tree_over_three_services_is_acked_when_the_last_has_answered(
    acker: AsyncAcker, http: httpx.AsyncClient, services: Services
) -> None:
    asked: list[str] = []

    async def mail(request: Request) -> str:
        asked.append(request.headers["Acker-Anchors"])
        return "sent"

    def bill(request: Request) -> str:  # not async, so in a thread
        asked.append(request.headers["Acker-Anchors"])
        with httpx.Client(event_hooks={"request": [inject_request]}, timeout=20) as client:
            client.post(mails).raise_for_status()
        return "billed"

    async def order(request: Request) -> str:
        asked.append(request.headers["Acker-Anchors"])
        await asyncio.gather(http.post(bills), http.post(mails))
        return "ordered"

    mails = await services.serve("mail", mail)
    bills = await services.serve("bill", bill)
    orders = await services.serve("order", order)
    told = await emit(acker, lambda: http.post(orders))
    assert (await told()).outcome is Outcome.ACKED
    assert len(asked) == len(set(asked)) == 4


async def test_a_service_that_raises_fails_the_tree_and_answers_500(
    acker: AsyncAcker, http: httpx.AsyncClient, services: Services
) -> None:
    async def bill() -> str:
        raise ValueError("no such card")

    bills = await services.serve("bill", bill)
    answers: list[int] = []

    async def send() -> None:
        answers.append((await http.post(bills)).status_code)

    done = await (await emit(acker, send))()
    assert (done.outcome, done.reason, done.component) == (Outcome.FAILED, "no such card", "bill")
    assert answers == [500]


async def test_a_stranger_does_nothing_to_a_root_it_knows_through_a_bolt_that_asks_for_proof(
    acker: AsyncAcker, process: AckerProcess
) -> None:
    secret = "32 random characters, from a file"
    seen: list[str] = []
    hooks = {"request": [partial(ainject_request, secret=secret)]}

    async def bill(request: Request) -> None:
        if request.headers.get("x-from") == "stranger":
            raise ValueError("no such card")
        seen.append(request.headers["Acker-Anchors"])

    services = Services(acker, secret=secret)
    async with services.stack, httpx.AsyncClient(event_hooks=hooks, timeout=20) as http:
        bills = await services.serve("bill", bill)
        spout = acker.spout("shop")
        async with spout.emit(message_id="42", message_timeout=60) as root:
            assert (await http.post(bills)).status_code == 200
            held = root.headers()  # so that the root stays open
        forged = [f"00 default {root.root_id}-00000000000000bb", "00 default 00000000000000aa-00000000000000bb"]
        async with httpx.AsyncClient(timeout=20) as stranger:
            for anchors in (*forged, *seen, *held.values()):
                for name in ("Acker-Anchors", "HTTP_ACKER_ANCHORS", "Acker_Anchors"):
                    await stranger.post(bills, headers={name: anchors, "x-from": "stranger"})
        assert await state(process, root.root_id) == "pending"
        assert (await root_of(process, "00000000000000aa")).status_code == 404
        await acker.receive(held, component="bill").ack()
        assert (await only(spout)).outcome is Outcome.ACKED
    assert len(seen) == 1


async def test_a_background_task_that_raises_fails_the_tree_though_the_answer_was_well(
    acker: AsyncAcker, http: httpx.AsyncClient, services: Services
) -> None:
    async def write() -> None:
        raise OSError("disk full")

    async def bill(behind: BackgroundTasks) -> str:
        behind.add_task(write)
        return "billed"

    bills = await services.serve("bill", bill)
    answers: list[int] = []

    async def send() -> None:
        answers.append((await http.post(bills)).status_code)

    done = await (await emit(acker, send))()
    assert (done.outcome, done.reason, answers) == (Outcome.FAILED, "disk full", [200])


async def test_a_streamed_answer_is_part_of_the_work_with_the_requests_it_sends(
    acker: AsyncAcker, http: httpx.AsyncClient, services: Services, process: AckerProcess
) -> None:
    go_on = asyncio.Event()

    async def mail() -> str:
        return "sent"

    async def rows() -> AsyncIterator[bytes]:
        yield b"one"
        await go_on.wait()
        await http.post(mails)
        yield b"two"

    async def report() -> StreamingResponse:
        return StreamingResponse(rows())

    mails = await services.serve("mail", mail)
    reports = await services.serve("report", report)
    spout = acker.spout("shop")
    async with spout.emit(message_id="42", message_timeout=60) as root:
        headers = root.headers()
    async with http.stream("POST", reports, headers=headers) as answer:
        parts = answer.aiter_raw()
        assert await anext(parts) == b"one"
        assert await state(process, root.root_id) == "pending"
        go_on.set()
        assert b"".join([part async for part in parts]) == b"two"
    assert (await only(spout)).outcome is Outcome.ACKED


async def test_a_stream_whose_reader_goes_away_is_not_acked_but_failed(
    acker: AsyncAcker, http: httpx.AsyncClient, services: Services
) -> None:
    async def rows() -> AsyncIterator[bytes]:
        while True:
            yield b"row"
            await asyncio.sleep(0)

    async def report() -> StreamingResponse:
        return StreamingResponse(rows())

    reports = await services.serve("report", report)

    async def send() -> None:
        async with http.stream("POST", reports) as answer:
            await anext(answer.aiter_raw())

    assert (await (await emit(acker, send))()).outcome is Outcome.FAILED


async def test_a_request_delivered_again_after_its_service_died_completes_the_tree_on_a_topology_that_dedupes(
    process: AckerProcess, http: httpx.AsyncClient
) -> None:
    asked: list[str] = []
    deaths = [ConnectionError("killed")]

    async def mail(request: Request) -> str:
        asked.append(request.headers["Acker-Anchors"])
        return "sent"

    async def bill() -> str:
        await http.post(mails, extensions={KEY: "mail"})
        if deaths:
            raise deaths.pop()
        return "billed"

    async with AsyncAcker(process.url, topology="again") as acker:
        services = Services(acker, on_error="leave_open")
        async with services.stack:
            mails = await services.serve("mail", mail)
            bills = await services.serve("bill", bill)
            request = http.build_request("POST", bills)
            answers: list[int] = []

            async def send() -> None:
                answers.extend([(await http.send(request)).status_code for _ in range(2)])

            done = await (await emit(acker, send))()
    assert (done.outcome, answers) == (Outcome.ACKED, [500, 200])
    assert len(asked) == 2
    assert asked[0] == asked[1]
