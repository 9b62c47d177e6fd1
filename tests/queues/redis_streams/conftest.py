"""Stores that have streams, and streams of a test's own."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis
from acker_client import Acker
from acker_client.sources.redis_streams import Message, RedisStreamSpout

from bench.servers import Member, one
from tests.integrations.conftest import client, process, topology
from tests.support import stores
from tests.support.servers import AckerProcess
from tests.support.spouts import RunningSpout

__all__ = ["client", "process", "topology"]

LONG = 60.0
IDLE_S = 4.0
"""The idle timeout of these spouts."""
ALWAYS = ("--appendonly", "yes", "--appendfsync", "always")
"""What a server has to keep to have everything after it is killed."""


@pytest.fixture(scope="session", params=["valkey", "redis7"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    """A server for the whole run."""
    folder: Path = tmp_path_factory.mktemp("streams")
    program = stores.redis7(folder) if request.param == "redis7" else ""
    with one(folder, *ALWAYS, program=program) as member:
        yield member


@dataclass(kw_only=True)
class Stream:
    """A stream of this test's own, with the group ``acker``."""

    url: str
    redis: Any
    name: str = field(default_factory=lambda: f"stream-{secrets.token_hex(4)}")

    def create(self) -> None:
        """Create it, and its group."""
        self.redis.xgroup_create(self.name, "acker", id="0", mkstream=True)

    def send(self, *bodies: str) -> None:
        """Add messages."""
        for body in bodies:
            self.redis.xadd(self.name, {"body": body})

    def pending(self) -> int:
        """How many messages are delivered and not acked."""
        return int(self.redis.xpending(self.name, "acker")["pending"])

    def left(self) -> int:
        """How many messages are not acked, delivered or not."""
        [group] = self.redis.xinfo_groups(self.name)
        return int(group["pending"]) + int(group["lag"])

    def consumers(self) -> list[str]:
        """The names of the group's consumers."""
        return [each["name"].decode() for each in self.redis.xinfo_consumers(self.name, "acker")]


@pytest.fixture
def make_stream(server: Member) -> Iterator[Callable[[], Stream]]:
    """Make a stream."""
    with redis.Redis.from_url(server.url) as connection:

        def make() -> Stream:
            made = Stream(url=server.url, redis=connection)
            made.create()
            return made

        yield make


@pytest.fixture
def stream(make_stream: Callable[[], Stream]) -> Stream:
    """A stream of this test's own."""
    return make_stream()


Reader = RunningSpout[RedisStreamSpout, Message]
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
                "group": "acker",
                "send": reader.send,
                "idle_timeout": IDLE_S,
                "retry_delay": 0.0,
            } | options
            reader.spout = RedisStreamSpout(acker, spout="orders", on_completed=reader.note, **options)
            with reader.running(drain_timeout):
                yield reader

    return start
