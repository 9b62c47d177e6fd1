"""The middleware for taskiq: each row of the table of docs/taskiq.md, with real workers on a real RabbitMQ."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from acker_client import Acker, Completion

from examples.support.broker import Broker
from tests.support.pages import DOCS, fences
from tests.support.servers import AckerProcess, acker_serve
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

PREFETCH = 10
"""So many messages RabbitMQ gives a worker that has not acked them; the default of taskiq-aio-pika."""
FOREIGN_NAMES = ("_private", "crm.contacts:sync/all", "发送邮件", "crm:", "a" * 150, "send mail")
"""Names of tasks that are not those of a component."""
TASKS_OF_ROOTS = PREFETCH + 2
TASKS = """

import os
from pathlib import Path

import taskiq

FOLDER = Path(__file__).parent
broker.with_middlewares(taskiq.SimpleRetryMiddleware(default_retry_count=3))


def note(name):
    with (FOLDER / "done.txt").open("a") as done:
        done.write(f"{name}\\n")


@broker.task
async def grow(depth: int) -> None:
    if depth:
        await asyncio.gather(*(grow.kiq(depth - 1) for _ in range(2)))
    note("grown")


@broker.task
async def refuse(line: str) -> None:
    raise ValueError(f"no such {line}")


@broker.task(retry_on_error=True)
async def third_time(line: str) -> None:
    note(line)
    if (FOLDER / "done.txt").read_text().count(line) < 3:
        raise ValueError("not yet")


@broker.task(retry_on_error=True, max_retries=2)
async def row(number: int) -> None:
    with (FOLDER / f"runs-{number}.txt").open("a") as runs:
        runs.write("x")
    if number == 3:
        await leaf.kiq("note")
    if number in (3, 7) or number == 11 and (FOLDER / "runs-11.txt").read_text() == "x":
        raise ValueError(f"row {number} has no price")
    note(f"row-{number}")


@broker.task
async def imports(rows: int) -> None:
    for number in range(rows):
        await row.kiq(number)


@broker.task
async def leaf(name: str) -> None:
    note(name)


@broker.task
async def parent(line: str) -> None:
    for child in "abc":
        await leaf.kiq(child)
    if not (FOLDER / "died.txt").exists():
        (FOLDER / "died.txt").touch()
        os._exit(9)
    note(line)


@broker.task
async def twice(line: str) -> None:
    await leaf.kiq(line)


@broker.task
async def gated(name: str) -> None:
    while not (FOLDER / "open.txt").exists():
        await asyncio.sleep(0.01)
    note(name)


for name in FOREIGN_NAMES:
    broker.register_task(leaf.original_func, task_name=name)
"""


class Application:
    """The page's program with tasks of these tests, and its module as this process imports it."""

    def __init__(self, folder: Path, module: Any) -> None:
        self.folder = folder
        self.module = module
        self.spout = module.acker.spout("messages")

    @property
    def done(self) -> list[str]:
        """The names that tasks have noted."""
        path = self.folder / "done.txt"
        return path.read_text().split() if path.exists() else []

    def has_done(self, tasks: int) -> Callable[[], Awaitable[bool]]:
        """Make a question whether so many tasks have run."""

        async def has() -> bool:
            return len(self.done) >= tasks

        return has

    async def completion(self) -> Completion:
        """Wait for the end of a root."""
        [completion] = await self.completions(1)
        return completion

    async def completions(self, roots: int) -> list[Completion]:
        """Wait for the ends of so many roots."""
        ended: list[Completion] = []
        async with asyncio.timeout(200):
            async for completion in self.spout.completions(poll_timeout=5, stop=lambda: len(ended) >= roots):
                ended.append(completion)  # noqa: PERF401 - stop() looks at it
        return ended


def program(process: AckerProcess, rabbitmq: Broker, topology: str) -> str:
    """Return the page's program with the addresses and the topology of a test."""
    text = next(fence.code for fence in fences((DOCS / "taskiq.md").read_text()) if fence.language == "python")
    for shown, real in (
        ("amqp://guest:guest@127.0.0.1:5672/%2F", rabbitmq.url),
        ("http://127.0.0.1:8700", process.url),
        ("crawl-tasks", topology),
        ("AioPikaBroker(", f"AioPikaBroker(task_queues=[Queue(name={topology!r})], qos={PREFETCH}, url="),
    ):
        assert shown in text
        text = text.replace(shown, real)
    return f"from taskiq_aio_pika import Queue\nFOREIGN_NAMES = {FOREIGN_NAMES!r}\n{text}"


@pytest.fixture
def tracked(client: Acker) -> str:
    """A topology with a dedupe window."""
    client.topologies.create(client.topology, message_timeout=300, dedupe_window=600)
    return client.topology


@asynccontextmanager
async def worker(folder: Path, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a worker until the block is left; taskiq's CLI starts one again that has died."""
    command = (sys.executable, "-m", "taskiq", "worker", "--workers", "1", *options, "crawl:broker")
    with (folder / "worker.log").open("ab") as log:
        running = await asyncio.create_subprocess_exec(*command, cwd=folder, stdout=log, stderr=log)
    try:
        yield running
    finally:
        running.terminate()
        await running.wait()


def write(folder: Path, text: str) -> None:
    """Write the program, with the tasks of these tests."""
    source, main = text.split("\nif __name__", maxsplit=1)
    (folder / "crawl.py").write_text(f"{source}{TASKS}\n\nif __name__{main}")


@asynccontextmanager
async def started(folder: Path) -> AsyncIterator[Application]:
    """Import the program of a folder, and start its broker as one that starts tasks, until the block is left."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.syspath_prepend(folder)
        import crawl  # type: ignore[import-not-found]  # noqa: PLC0415 - the file was just written

        try:
            await crawl.broker.startup()
            yield Application(folder, crawl)
            await crawl.broker.shutdown()
            await crawl.acker.close()
        finally:
            sys.modules.pop("crawl", None)


@pytest.fixture
def folder(process: AckerProcess, rabbitmq: Broker, tracked: str, tmp_path: Path) -> Path:
    write(tmp_path, program(process, rabbitmq, tracked))
    return tmp_path


@pytest.fixture
async def app(folder: Path) -> AsyncIterator[Application]:
    async with started(folder) as app, worker(folder):
        yield app


async def test_what_grows_while_it_runs_is_one_tree_and_equal_tasks_are_children_of_their_own(app: Application) -> None:
    async with app.spout.emit(message_id="m"):
        await app.module.grow.kiq(4)
    assert (await app.completion()).outcome == "acked"
    assert app.done == ["grown"] * 31


@pytest.mark.parametrize("name", FOREIGN_NAMES, ids=ascii)
async def test_a_task_of_any_name_belongs_to_the_tree(app: Application, name: str) -> None:
    task = app.module.broker.find_task(name)
    async with app.spout.emit(message_id="m"):
        await task.kiq("line")
    assert (await app.completion()).outcome == "acked"
    assert app.done == ["line"]


async def test_a_worker_goes_on_with_more_tasks_than_its_prefetch_while_the_acker_is_away(
    rabbitmq: Broker, tmp_path: Path
) -> None:
    """Their trees time out, and that of a task which runs later is acked."""
    with acker_serve(tmp_path / "acker", "--data-dir", str(tmp_path / "data")) as acker:
        text = program(acker, rabbitmq, "away")
        write(tmp_path, text.replace('topology="away"', 'topology="away", retry_timeout=1, startup_timeout=1'))
        with Acker(acker.url) as client:
            client.topologies.create("away", message_timeout=5, dedupe_window=600)
        # one task at a time, so that each fails to deliver its own ack
        async with started(tmp_path) as app, worker(tmp_path, "--max-async-tasks", "1"):
            async with app.spout.emit(message_id="first"):
                await app.module.leaf.kiq("first")
            assert (await app.completion()).outcome == "acked"
            for number in range(TASKS_OF_ROOTS):
                async with app.spout.emit(message_id=f"{number}"):
                    await app.module.gated.kiq(f"{number}")
            acker.terminate()
            (tmp_path / "open.txt").touch()
            await eventually(app.has_done(1 + TASKS_OF_ROOTS), within=100)
            acker.start()
            await asyncio.to_thread(acker.wait_until_ready)
            assert [each.outcome for each in await app.completions(TASKS_OF_ROOTS)] == ["timed_out"] * TASKS_OF_ROOTS
            async with app.spout.emit(message_id="later"):
                await app.module.leaf.kiq("later")
            assert (await app.completion()).outcome == "acked"


async def test_a_task_that_raises_fails_its_root(app: Application) -> None:
    async with app.spout.emit(message_id="m"):
        await app.module.refuse.kiq("line")
    completion = await app.completion()
    assert (completion.outcome, completion.reason) == ("failed", "no such line")


async def test_a_task_that_is_tried_again_is_open_until_its_last_try(app: Application) -> None:
    async with app.spout.emit(message_id="m"):
        await app.module.third_time.kiq("line")
    assert (await app.completion()).outcome == "acked"
    assert app.done == ["line"] * 3


async def test_a_root_that_ends_when_all_have_counts_each_task_that_is_not_tried_again(app: Application) -> None:
    """Two of 30 rows fail with their last try, one of them after it has started a task; another succeeds then."""
    async with app.spout.emit(message_id="m", end_on="all_ended"):
        await app.module.imports.kiq(30)
    completion = await app.completion()
    assert (completion.outcome, completion.failures) == ("failed", 2)
    assert set(app.done) == {"note", *(f"row-{number}" for number in range(30) if number not in (3, 7))}


async def test_a_message_that_is_delivered_twice_counts_once(app: Application) -> None:
    """Its child has the same edge in both runs."""
    sent: list[Any] = []
    kick = app.module.broker.kick

    async def kick_twice(message: Any) -> None:
        sent.append(message)
        await kick(message)
        await kick(message)

    app.module.broker.kick = kick_twice
    async with app.spout.emit(message_id="m"):
        await app.module.twice.kiq("line")
    assert (await app.completion()).outcome == "acked"

    async def both() -> bool:
        return app.done == ["line"] * 2

    await eventually(both)
    assert len(sent) == 1


async def test_a_worker_that_dies_before_the_ack_loses_nothing(app: Application) -> None:
    async with app.spout.emit(message_id="m"):
        await app.module.parent.kiq("line")
    assert (await app.completion()).outcome == "acked"
    assert {"a", "b", "c", "line"} == set(app.done)


async def test_a_task_without_anchors_is_not_tracked(app: Application) -> None:
    await app.module.leaf.kiq("alone")

    async def ran() -> bool:
        return app.done == ["alone"]

    await eventually(ran)


async def test_the_page_works_when_pasted(folder: Path) -> None:
    answer = next(fence.code for fence in fences((DOCS / "taskiq.md").read_text()) if fence.language == "text")
    async with worker(folder):
        ran = await asyncio.to_thread(
            subprocess.run, [sys.executable, "crawl.py"], cwd=folder, capture_output=True, text=True, timeout=200
        )
    assert (ran.stdout.strip(), ran.returncode) == (answer.strip(), 0), ran.stderr
