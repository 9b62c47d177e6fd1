"""Thousands of readers at once on one replica: all are served, and a stop lets go of all of them."""

import asyncio
import contextlib
import resource
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from acker_protocol import routes

from tests.support.caller import Document, ack, init
from tests.support.servers import AckerProcess, acker_serve
from tests.support.streams import Connection, connect
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

CLIENTS, SPOUTS, ROUNDS = 5_000, 500, 2
MOST_KIB = 100
"""What a waiting client may cost; about a third of that was measured."""


@pytest.fixture
def usual_files() -> Iterator[None]:
    """Start with as few open files as are usual: the acker has to raise that for itself."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= before[1] < CLIENTS + 1_000:
        pytest.skip(f"only {before[1]} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def open_many_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (CLIENTS + 1_000, hard))


@dataclass
class Client:
    """One who reads all completions of a spout task, and on until the service ends."""

    spout: int
    connection: Connection
    waits: bool = False
    told: list[int] = field(default_factory=list)
    last: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return routes.completions("default", f"s{self.spout}")

    async def stream(self) -> None:
        """Read as events, to the end of the stream."""
        status, _ = await self.connection.get(self.path, Accept="text/event-stream")
        assert status == 200
        async for event in self.connection.events():
            self.waits = True
            self.last = event.fields
            if "data" in event.fields:
                self._take(event.completion)

    async def poll(self) -> None:
        """Read by long polls, until one is answered with nothing or comes when all is over."""
        page: Document = {"completions": [{}], "cursor": ""}
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while page["completions"]:
                after = f"&after={page['cursor']}" if self.told else ""
                self.waits = True
                page = await self.connection.poll(f"{self.path}?wait_ms=60000{after}")
                for done in page["completions"]:
                    self._take(done)

    def _take(self, done: Document) -> None:
        self.told.append(int(done["root_id"], 16))


def roots(spout: int) -> list[int]:
    """The roots of a spout task, one a round."""
    return [(number + 1) * SPOUTS + spout for number in range(ROUNDS)]


async def send(acker: AckerProcess, ops: list[Document]) -> None:
    answer = await asyncio.to_thread(acker.http.post, routes.operation("default", "batch"), json={"ops": ops})
    assert answer.status_code == 200, answer.text


def resident_kib(acker: AckerProcess) -> int:
    status = Path(f"/proc/{acker.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


async def test_all_of_five_thousand_readers_are_served_and_let_go(tmp_path: Path, usual_files: None) -> None:
    with acker_serve(tmp_path, "--data-dir", str(tmp_path)) as acker:
        await send(acker, [init(root, 1, spout_task=f"s{spout}") for spout in range(SPOUTS) for root in roots(spout)])
        before = resident_kib(acker)
        open_many_files()
        clients = [Client(n % SPOUTS, await connect(acker.url)) for n in range(CLIENTS)]
        streams, polls = clients[: CLIENTS // 2], clients[CLIENTS // 2 :]
        reading = [asyncio.create_task(client.stream()) for client in streams]
        reading += [asyncio.create_task(client.poll()) for client in polls]

        async def have(count: int) -> bool:
            assert not any(task.done() for task in reading)
            return all(client.waits and len(client.told) >= count for client in clients)

        await eventually(lambda: have(0), within=120)
        for number in range(ROUNDS):
            await send(acker, [ack(roots(spout)[number], 1) for spout in range(SPOUTS)])
            await eventually(lambda: have(number + 1), within=60)  # noqa: B023 - it is awaited here
        assert (resident_kib(acker) - before) / CLIENTS < MOST_KIB
        assert await asyncio.to_thread(acker.terminate, within=30) == 0
        await asyncio.gather(*reading)
        assert all(client.told == roots(client.spout) for client in clients), "each once, and in its order"
        assert all(client.last == {"retry": "1000"} for client in streams)
        await asyncio.gather(*(client.connection.close() for client in clients))
    assert "Traceback" not in acker.log.read_text()
