"""The brokers, the acker and its topologies, each started once."""

import contextlib
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from acker_client import Acker

from bench.servers import one
from examples.support.broker import Broker, running_broker
from tests.queues.harness import Lab
from tests.support.broker import need_broker
from tests.support.servers import acker_serve

MESSAGE_TIMEOUT_S = 500.0
SOME_TIMEOUT_S = 20.0
SHORT_TIMEOUT_S = 3.0
QUORUM_TIMEOUT_S = 6.0
DEDUPE_WINDOW_S = 1_200.0


class Services:
    """Where everything is; RabbitMQ is started when it is first needed."""

    def __init__(self, *, redis: str, acker: str, start_rabbitmq: Callable[[], Broker]) -> None:
        self.redis = redis
        self.acker = acker
        self._start_rabbitmq = start_rabbitmq
        self._rabbitmq: Broker | None = None

    def lab(
        self, broker: str, *, message_timeout: float = MESSAGE_TIMEOUT_S, dedupe_window: float = DEDUPE_WINDOW_S
    ) -> Lab:
        """Make a lab with a topology of its own."""
        topology = f"queues-{secrets.token_hex(4)}"
        with Acker(self.acker) as acker:
            acker.topologies.create(topology, message_timeout=message_timeout, dedupe_window=dedupe_window)
        url = f"{self.redis}/0" if broker == "redis" else self.rabbitmq.url
        return Lab(broker=url, marks=f"{self.redis}/15", acker_url=self.acker, topology=topology)

    @property
    def rabbitmq(self) -> Broker:
        """The RabbitMQ."""
        if self._rabbitmq is None:
            self._rabbitmq = self._start_rabbitmq()
        return self._rabbitmq


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """A Valkey and a RabbitMQ as brokers, and an acker."""
    folder: Path = tmp_path_factory.mktemp("queues")
    with contextlib.ExitStack() as stack:
        valkey = stack.enter_context(one(folder / "valkey"))
        acker = stack.enter_context(acker_serve(folder, "--data-dir", str(folder / "data")))

        def start_rabbitmq() -> Broker:
            need_broker()
            return stack.enter_context(running_broker(tmp_path_factory.mktemp("rabbitmq")))

        yield Services(redis=valkey.url, acker=acker.url, start_rabbitmq=start_rabbitmq)
