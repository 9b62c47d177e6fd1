"""What the tests of the Kafka spout share: a broker and an acker, each started once, and names of a test's own."""

import secrets
from collections.abc import Iterator
from functools import partial

import pytest

from examples.support.acker import create_topology
from examples.support.kafka import KafkaBroker, running_kafka
from tests.support.kafka import PROTOCOLS, Member, member, member_config, need_kafka
from tests.support.servers import acker_serve


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A Kafka for the whole run."""
    need_kafka()
    with running_kafka(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def acker_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An acker for the whole run."""
    folder = tmp_path_factory.mktemp("acker")
    with acker_serve(folder, "--data-dir", str(folder / "data")) as acker:
        yield acker.url


@pytest.fixture
def topology(acker_url: str) -> str:
    """A topology of this test's own."""
    name = f"orders-{secrets.token_hex(4)}"
    create_topology(acker_url, name, message_timeout=60)
    return name


@pytest.fixture
def group() -> str:
    """The name of a group of this test's own."""
    return f"group-{secrets.token_hex(4)}"


@pytest.fixture
def topic(kafka: KafkaBroker) -> str:
    """A topic of this test's own, with one partition."""
    name = f"topic-{secrets.token_hex(4)}"
    kafka.create_topic(name)
    return name


@pytest.fixture
def wide_topic(kafka: KafkaBroker) -> str:
    """A topic of this test's own, with two partitions."""
    name = f"wide-{secrets.token_hex(4)}"
    kafka.create_topic(name, partitions=2)
    return name


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    """Each group protocol in turn."""
    return str(request.param)


@pytest.fixture
def reading(kafka: KafkaBroker, acker_url: str, topology: str, group: str) -> "partial[Iterator[Member]]":
    """Runs a member of the group of this test: by a context manager of its topics."""

    def start(*topics: str, protocol: str = "classic", settings: dict[str, object] | None = None, **options: object):
        config = member_config(kafka, group, protocol, **(settings or {}))
        return member(acker_url, topology, config, list(topics), **options)

    return start
