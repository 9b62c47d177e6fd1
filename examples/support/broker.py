"""Starts a RabbitMQ: a node with its own epmd, on free ports, its data and its cookie in a folder.

The operating system's package has to be installed (Debian: ``apt-get install rabbitmq-server``); its own service is not
touched and need not run. Any user may start a node this way, root too.
"""

import contextlib
import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pika

from examples.support.ports import free_port
from examples.support.processes import Child, Processes, processes_in

PROGRAMS = ("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server")
"""Debian's one on the PATH changes to the user of its service, so what it starts in the end is looked for first."""

_CONFIGURATION = """
listeners.tcp.local = 127.0.0.1:{port}
loopback_users = none
vm_memory_high_watermark.relative = 0.8
disk_free_limit.absolute = 50MB
"""


class NoBroker(Exception):
    """RabbitMQ is not installed."""


def find_program() -> str:
    """Find what starts a node. Raises `NoBroker`."""
    for program in PROGRAMS:
        if (found := shutil.which(program)) and shutil.which("epmd"):
            return found
    raise NoBroker("RabbitMQ is not installed here (Debian: apt-get install rabbitmq-server)")


@dataclass(slots=True, kw_only=True)
class Broker:
    """A node; ``url`` is where clients find it, also after it was stopped and started again."""

    processes: Processes
    port: int
    environment: Mapping[str, str]
    node: Child | None = None

    @property
    def url(self) -> str:
        """The address of its one virtual host, with user and password."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}/%2F"

    def start(self) -> None:
        """Start the node, or start it again with the data it had; come back when it takes connections."""
        self.node = self.processes.start("rabbitmq", [find_program()], environment=self.environment)
        self.node.wait_until(self._takes_connections, within=120)

    def stop(self) -> None:
        """Stop the node in good order: durable queues and persistent messages are there when it starts again."""
        assert self.node is not None
        self.node.end(within=60)

    def kill(self) -> None:
        """kill -9."""
        assert self.node is not None
        self.node.kill()

    def ready(self, queue: str) -> int:
        """Count the messages of a queue that wait for a consumer; those that one holds are not among them."""
        with contextlib.closing(self.connect()) as connection:
            return int(connection.channel().queue_declare(queue, passive=True).method.message_count)

    def connect(self) -> pika.BlockingConnection:
        """Connect."""
        return pika.BlockingConnection(pika.URLParameters(self.url))

    def _takes_connections(self) -> bool:
        with contextlib.suppress(pika.exceptions.AMQPError, OSError):
            self.connect().close()
            return True
        return False


@contextlib.contextmanager
def running_broker(folder: Path, *, settings: str = "[]") -> Iterator[Broker]:
    """Run a RabbitMQ until the block is left; ``settings`` are the term of its ``advanced.config``.

    Raises `NoBroker`, and `Died` if it does not get ready.
    """
    find_program()
    with processes_in(folder) as processes:
        epmd_port, port = free_port(), free_port()
        names = ["epmd", "-port", str(epmd_port), "-address", "127.0.0.1"]
        epmd = processes.start("epmd", names)
        epmd.wait_until(lambda: _listens(epmd_port))
        environment = _environment(folder, port=port, epmd_port=epmd_port)
        (folder / "rabbitmq.conf").write_text(_CONFIGURATION.format(port=port))
        (folder / "advanced.config").write_text(f"{settings}.\n")
        broker = Broker(processes=processes, port=port, environment=environment)
        broker.start()
        try:
            yield broker
        finally:
            broker.kill()  # nobody will read what it holds


def _environment(folder: Path, *, port: int, epmd_port: int) -> dict[str, str]:
    """Let a node find its epmd and everything of its own in this folder, and nothing of the system's node."""
    plugins = folder / "enabled_plugins"
    plugins.write_text("[].\n")
    return {
        "HOME": str(folder),
        "ERL_EPMD_PORT": str(epmd_port),
        "ERL_CRASH_DUMP": str(folder / "erl_crash.dump"),
        "RABBITMQ_NODENAME": f"stage-{os.getpid()}-{port}@localhost",
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
        "RABBITMQ_CONF_ENV_FILE": os.devnull,
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
        "RUNNING_UNDER_SYSTEMD": "true",  # the script becomes the node, so that its pid is the node's
    }


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
