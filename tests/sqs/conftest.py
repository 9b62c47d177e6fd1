"""A real ElasticMQ, which speaks the protocol of SQS: its jars come from Maven. And queues of a test's own."""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from acker_client import Acker
from acker_client.sources.sqs import Message, SqsSpout
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from examples.support.maven import NoJars, find_classpath
from examples.support.ports import free_port
from examples.support.processes import Child, processes_in
from tests.integrations.conftest import client, process, topology
from tests.support.servers import AckerProcess
from tests.support.spouts import RunningSpout

__all__ = ["client", "process", "topology"]

POM = Path(__file__).with_name("elasticmq.pom.xml")
CONFIGURATION = """
node-address {{ protocol = http, host = "127.0.0.1", port = {port}, context-path = "" }}
rest-sqs {{ enabled = true, bind-port = {port}, bind-hostname = "127.0.0.1", sqs-limits = strict }}
rest-stats {{ enabled = false }}
"""
LONG = 60.0
VISIBLE_S = 10
"""The visibility timeout of these spouts."""


def make_client(url: str, *, read_timeout: float = 3.5) -> Any:
    """Make a client of a server, whose requests take ``read_timeout`` and a second at most."""
    config = Config(connect_timeout=1, read_timeout=read_timeout, retries={"total_max_attempts": 1})
    login = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
    return boto3.client("sqs", endpoint_url=url, region_name="elasticmq", config=config, **login)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """An SQS that runs on this machine."""

    url: str
    node: Child

    def client(self) -> Any:
        """Make a client that gives up early."""
        return make_client(self.url)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An SQS for the whole run."""
    try:
        classpath = find_classpath(POM, name="elasticmq-1.6.11")
    except NoJars as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))
    folder, port = tmp_path_factory.mktemp("sqs"), free_port()
    settings = folder / "elasticmq.conf"
    settings.write_text(CONFIGURATION.format(port=port))
    options = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dconfig.file={settings}"]
    with processes_in(folder) as processes:
        node = processes.start(
            "sqs", ["java", *options, "org.elasticmq.server.Main"], environment={"CLASSPATH": classpath}
        )
        found = Server(url=f"http://127.0.0.1:{port}", node=node)
        node.wait_until(lambda: _answers(found), within=120)
        yield found


def _answers(server: Server) -> bool:
    try:
        server.client().list_queues()
    except (BotoCoreError, ClientError):
        return False
    return True


@dataclass(kw_only=True)
class Queue:
    """A queue of this test's own."""

    sqs: Any
    url: str

    def send(self, *bodies: str, **options: Any) -> None:
        """Send messages."""
        for body in bodies:
            self.sqs.send_message(QueueUrl=self.url, MessageBody=body, **options)

    def size(self) -> int:
        """The messages in it, also those that are invisible."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)
        return sum(map(int, answer["Attributes"].values()))


@pytest.fixture
def make_queue(server: Server) -> Callable[..., Queue]:
    """Make a queue with attributes."""
    sqs = server.client()

    def make(name: str = "", **attributes: str) -> Queue:
        made = sqs.create_queue(QueueName=name or f"queue-{secrets.token_hex(4)}", Attributes=attributes)
        return Queue(sqs=sqs, url=made["QueueUrl"])

    return make


@pytest.fixture
def queue(make_queue: Callable[..., Queue]) -> Queue:
    """A queue of this test's own."""
    return make_queue()


Reader = RunningSpout[SqsSpout, Message]
Reading = Callable[..., AbstractContextManager[Reader]]


@pytest.fixture
def reading(process: AckerProcess, client: Acker, server: Server) -> Reading:
    """Run a spout over a queue: by a context manager; ``options`` are the spout's."""

    @contextmanager
    def start(queue: Queue, *, drain_timeout: float = 0.0, **options: Any) -> Iterator[Reader]:
        with Acker(process.url, client.topology, linger=0, retry_timeout=1.0, emit_timeout=1.0) as acker:
            reader = Reader(acker=acker, within=LONG)
            options = {
                "client": server.client(),
                "send": reader.send,
                "visibility_timeout": VISIBLE_S,
                "retry_delay": 0,
            } | options
            reader.spout = SqsSpout(acker, spout="orders", queue_url=queue.url, on_completed=reader.note, **options)
            with reader.running(drain_timeout):
                yield reader

    return start
