"""The middleware of docs/taskiq.md: each row of its table, with real workers on a real RabbitMQ."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from acker_client import Acker, Completion

from examples.support.broker import Broker
from tests.support.pages import DOCS, fences
from tests.support.servers import AckerProcess
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

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
"""


class Application:
    """The page's program with tasks of these tests, and its module as this process imports it."""

    def __init__(self, folder: Path, module: Any) -> None:
        self.folder, self.module = folder, module
        self.spout = module.acker.spout("messages")

    @property
    def done(self) -> list[str]:
        """The names that tasks have noted."""
        path = self.folder / "done.txt"
        return path.read_text().split() if path.exists() else []

    async def completion(self) -> Completion:
        """Wait for the end of a root."""
        async with asyncio.timeout(200):
            async for completion in self.spout.completions(poll_timeout=5):
                return completion
        raise AssertionError("reading ended without a completion")


def program(process: AckerProcess, rabbitmq: Broker, topology: str) -> str:
    """Give the page's program with the addresses and the topology of a test."""
    text = next(fence.code for fence in fences((DOCS / "taskiq.md").read_text()) if fence.language == "python")
    for shown, real in (
        ("amqp://guest:guest@127.0.0.1:5672/%2F", rabbitmq.url),
        ("http://127.0.0.1:8700", process.url),
        ("crawl-tasks", topology),
        ("AioPikaBroker(", f"AioPikaBroker(task_queues=[Queue(name={topology!r})], url="),
    ):
        assert shown in text
        text = text.replace(shown, real)
    return f"from taskiq_aio_pika import Queue\n{text}"


@pytest.fixture
def tracked(client: Acker) -> str:
    """A topology with a dedupe window."""
    client.topologies.create(client.topology, message_timeout=300, dedupe_window=600)
    return client.topology


@asynccontextmanager
async def worker(folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a worker until the block is left; taskiq's CLI starts one again that has died."""
    command = (sys.executable, "-m", "taskiq", "worker", "--workers", "1", "crawl:broker")
    with (folder / "worker.log").open("ab") as log:
        running = await asyncio.create_subprocess_exec(*command, cwd=folder, stdout=log, stderr=log)
    try:
        yield running
    finally:
        running.terminate()
        await running.wait()


@pytest.fixture
def folder(process: AckerProcess, rabbitmq: Broker, tracked: str, tmp_path: Path) -> Iterator[Path]:
    source, main = program(process, rabbitmq, tracked).split("\nif __name__", maxsplit=1)
    (tmp_path / "crawl.py").write_text(f"{source}{TASKS}\n\nif __name__{main}")
    yield tmp_path
    sys.modules.pop("crawl", None)


@pytest.fixture
async def app(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Application]:
    monkeypatch.syspath_prepend(folder)
    import crawl  # type: ignore[import-not-found]  # noqa: PLC0415 - the file was just written

    await crawl.broker.startup()
    async with worker(folder):
        yield Application(folder, crawl)
    await crawl.broker.shutdown()
    await crawl.acker.close()


async def test_what_grows_while_it_runs_is_one_tree_and_equal_tasks_are_children_of_their_own(app: Application) -> None:
    async with app.spout.emit(message_id="m"):
        await app.module.grow.kiq(4)
    assert (await app.completion()).outcome == "acked"
    assert app.done == ["grown"] * 31


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
