"""One acker for all of these tests, and each test's own topology."""

from collections.abc import Iterator
from itertools import count

import pytest
from acker_client import Acker

from bench.servers import one
from examples.support.broker import Broker, running_broker
from tests.support.broker import need_broker
from tests.support.servers import AckerProcess, acker_serve

_numbers = count(1)


@pytest.fixture(scope="session")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AckerProcess]:
    folder = tmp_path_factory.mktemp("acker")
    with acker_serve(folder, "--data-dir", str(folder / "data"), "--callback-allow-cidrs", "127.0.0.0/8") as acker:
        yield acker


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A RabbitMQ for the whole run."""
    need_broker()
    with running_broker(tmp_path_factory.mktemp("rabbitmq")) as broker:
        yield broker


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Valkey as a broker, for the whole run."""
    with one(tmp_path_factory.mktemp("valkey")) as valkey:
        yield valkey.url


@pytest.fixture
def topology() -> str:
    return f"test-{next(_numbers)}"


@pytest.fixture
def client(process: AckerProcess, topology: str) -> Iterator[Acker]:
    """A client of a new topology with a long message timeout and without a dedupe window."""
    with Acker(process.url, topology, linger=0) as acker:
        acker.topologies.create(topology, message_timeout=300, dedupe_window=0)
        yield acker
