"""Starts a Kafka from the jars of Maven: one process, broker and controller, on free ports, its data in a folder.

It needs Java 17 or later, and Maven, which downloads 130 MB at the first time and keeps them.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from examples.support import maven
from examples.support.ports import free_port
from examples.support.processes import Child, Processes, processes_in

POM = Path(__file__).with_name("kafka.pom.xml")
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"

_CONFIGURATION = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
# one broker: nothing can have three replicas
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
# the first member of a group need not wait for others, and short sessions are allowed
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
group.consumer.min.session.timeout.ms=1000
group.consumer.session.timeout.ms=6000
group.consumer.min.heartbeat.interval.ms=500
group.consumer.heartbeat.interval.ms=1000
# logs are compacted within a second
log.cleaner.backoff.ms=500
log.cleaner.dedupe.buffer.size=8388608
"""


class NoKafka(Exception):
    """Kafka cannot be run here."""


@dataclass(slots=True, kw_only=True)
class KafkaBroker:
    """A broker; ``address`` is where clients find it, also after it was killed and started again."""

    processes: Processes
    port: int
    command: Sequence[str]
    environment: Mapping[str, str]
    node: Child | None = None

    @property
    def address(self) -> str:
        """Its bootstrap server."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, or start it again with the data it had; come back when it answers."""
        self.node = self.processes.start("kafka", self.command, environment=self.environment)
        self.node.wait_until(self._answers, within=180)

    def stop(self) -> None:
        """Stop it in good order."""
        assert self.node is not None
        self.node.end(within=60)

    def kill(self) -> None:
        """kill -9."""
        assert self.node is not None
        self.node.kill()

    def admin(self) -> AdminClient:
        """Return an admin client."""
        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def create_topic(self, name: str, *, partitions: int = 1, **config: str) -> None:
        """Create a topic; names in ``config`` have ``_`` for ``.``."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
        admin = self.admin()  # its futures fail when it is gone
        for created in admin.create_topics([topic]).values():
            created.result(60)

    def _answers(self) -> bool:
        with contextlib.suppress(KafkaException):
            return bool(self.admin().list_topics(timeout=2).brokers)
        return False


@contextlib.contextmanager
def running_kafka(folder: Path) -> Iterator[KafkaBroker]:
    """Run a broker until the block is left. Raises `NoKafka`, and `Died` if it does not get ready."""
    classpath = find_classpath()
    folder.mkdir(parents=True, exist_ok=True)
    port, settings = free_port(), folder / "server.properties"
    settings.write_text(_CONFIGURATION.format(port=port, controller_port=free_port(), folder=folder))
    environment = {"CLASSPATH": classpath}
    with processes_in(folder) as processes:
        format_ = ["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID, "--config", str(settings)]
        if code := processes.start("kafka-format", ["java", "-Xmx128m", *format_], environment=environment).wait(
            within=120
        ):
            raise NoKafka(f"the folder of Kafka could not be formatted: {code}")
        options = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        logging = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        command = ["java", *options, *logging, "kafka.Kafka", str(settings)]
        broker = KafkaBroker(processes=processes, port=port, command=command, environment=environment)
        broker.start()
        try:
            yield broker
        finally:
            broker.kill()  # nobody will read what it holds


def find_classpath() -> str:
    """Let Maven find the jars, once; give their paths. Raises `NoKafka`."""
    try:
        return maven.find_classpath(POM, name="kafka-4.4.0")
    except maven.NoJars as missing:
        raise NoKafka(str(missing)) from None
