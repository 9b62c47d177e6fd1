"""A real NATS server with JetStream: built by Go from the module that go.mod pins. And streams of a test's own."""

import asyncio
import secrets
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import nats
import pytest
from acker_client import Acker
from acker_client.sources.nats import Message, NatsSpout
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, ConsumerInfo

from examples.support.ports import free_port
from examples.support.processes import Child, Processes, processes_in
from tests.integrations.conftest import client, process, topology
from tests.support.servers import AckerProcess
from tests.support.spouts import RunningSpout

__all__ = ["client", "process", "topology"]

SERVER = "github.com/nats-io/nats-server/v2"
BUILD_S = 900
"""How long the first build may take; Go keeps what it has compiled."""
LONG = 60.0
ACK_WAIT_S = 4.0
"""The ack wait of the consumers of these spouts."""

Found = TypeVar("Found")


@dataclass(kw_only=True)
class Server:
    """A NATS server that is started again with what it had."""

    program: Path
    folder: Path
    processes: Processes
    options: tuple[str, ...] = ("--jetstream",)
    port: int = field(default_factory=free_port)
    node: Child = field(init=False)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        where = ["--addr", "127.0.0.1", "--port", str(self.port), "--store_dir", str(self.folder)]
        self.node = self.processes.start("server", [str(self.program), *where, *self.options])
        self.node.wait_until(lambda: asyncio.run(_answers(self.port)))


async def _answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's program."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go 1.26 is not installed here, which builds the server")
    built, here = tmp_path_factory.mktemp("nats") / "nats-server", Path(__file__).parent
    subprocess.run([go, "build", "-o", str(built), SERVER], cwd=here, check=True, timeout=BUILD_S)
    return built


@contextmanager
def running_server(program: Path, folder: Path, *options: str) -> Iterator[Server]:
    """Run a server until the block is left."""
    with processes_in(folder) as processes:
        found = Server(program=program, folder=folder, processes=processes, options=("--jetstream", *options))
        found.start()
        yield found


@pytest.fixture(scope="session")
def server(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A NATS server for the whole run."""
    with running_server(program, tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="session")
def nats_url(server: Server) -> str:
    """Where that server listens."""
    return server.url


@dataclass(kw_only=True)
class Stream:
    """A stream of this test's own, with the consumer ``acker``."""

    url: str
    name: str = field(default_factory=lambda: f"stream-{secrets.token_hex(4)}")

    def ask(self, question: Callable[[JetStreamContext], Awaitable[Found]]) -> Found:
        """Ask JetStream something, on a connection of its own."""

        async def run() -> Found:
            connection = await nats.connect(self.url, connect_timeout=10)
            try:
                return await question(connection.jetstream(timeout=20))
            finally:
                await connection.close()

        return asyncio.run(run())

    def create(self, **options: Any) -> None:
        """Create it, and its consumer with options."""
        config = ConsumerConfig(**({"durable_name": "acker", "ack_wait": ACK_WAIT_S} | options))

        async def make(context: JetStreamContext) -> None:
            await context.add_stream(name=self.name, subjects=[self.name])
            await context.add_consumer(self.name, config)

        self.ask(make)

    def send(self, *bodies: str, headers: dict[str, str] | None = None) -> None:
        """Publish messages."""

        async def publish(context: JetStreamContext) -> None:
            for body in bodies:
                await context.publish(self.name, body.encode(), headers=headers)

        self.ask(publish)

    def info(self) -> ConsumerInfo:
        """Return the consumer's state."""
        return self.ask(lambda context: context.consumer_info(self.name, "acker"))

    def pending(self) -> int:
        """How many messages are delivered and not acked."""
        return self.info().num_ack_pending or 0

    def left(self) -> int:
        """How many messages are not acked, delivered or not."""
        info = self.info()
        return (info.num_ack_pending or 0) + (info.num_pending or 0)


@pytest.fixture
def make_stream(server: Server) -> Callable[..., Stream]:
    """Make a stream whose consumer has options."""

    def make(**options: Any) -> Stream:
        made = Stream(url=server.url)
        made.create(**options)
        return made

    return make


@pytest.fixture
def stream(make_stream: Callable[..., Stream]) -> Stream:
    """A stream of this test's own."""
    return make_stream()


Reader = RunningSpout[NatsSpout, Message]
Reading = Callable[..., AbstractContextManager[Reader]]


@pytest.fixture
def reading(process: AckerProcess, client: Acker) -> Reading:
    """Run a spout over a stream: by a context manager; ``options`` are the spout's."""

    @contextmanager
    def start(stream: Stream, *, drain_timeout: float = 0.0, **options: Any) -> Iterator[Reader]:
        with Acker(process.url, client.topology, linger=0, retry_timeout=1.0, emit_timeout=1.0) as acker:
            reader = Reader(acker=acker, within=LONG)
            options = {
                "url": stream.url,
                "stream": stream.name,
                "consumer": "acker",
                "send": reader.send,
                "retry_delay": 0.0,
            } | options
            reader.spout = NatsSpout(acker, spout="orders", on_completed=reader.note, **options)
            with reader.running(drain_timeout):
                yield reader

    return start
