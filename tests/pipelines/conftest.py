"""What the pipelines share: a RabbitMQ and an acker, each started once."""

import secrets
from collections.abc import Iterator

import pytest

from examples.support.broker import Broker, running_broker
from tests.support.broker import need_broker
from tests.support.servers import acker_serve


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A RabbitMQ for the whole run."""
    need_broker()
    with running_broker(tmp_path_factory.mktemp("rabbitmq")) as broker:
        yield broker


@pytest.fixture(scope="session")
def acker_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An acker for the whole run."""
    folder = tmp_path_factory.mktemp("acker")
    with acker_serve(folder, "--data-dir", str(folder / "data")) as acker:
        yield acker.url


@pytest.fixture
def queue(broker: Broker) -> str:
    """The name of a queue of this test's own."""
    return f"queue-{secrets.token_hex(4)}"
