"""A Spark cluster: a master, and two workers that take each other for two machines.

Spark starts no copy of a task on the machine that runs it, and tells machines by their names: here two loopback
addresses.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark

from tests.spark.session import JVM
from tests.support.waiting import eventually_true

HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).resolve().parents[2]
HOSTS = "127.0.0.1", "127.0.0.2"
MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+:\d+)")
REGISTERED = "Successfully registered with master"


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Run a master and a worker of one core on each address, until the block is left, and yield the master's URL."""
    with contextlib.ExitStack() as daemons:
        log = daemons.enter_context(_daemon(folder, "master.Master", HOSTS[0]))
        _wait_for(log, "Starting Spark master at")
        found = MASTER_URL.search(log.read_text())
        assert found, log.read_text()
        for host in HOSTS:
            own = ("--cores", "1", "--memory", "512m", "--work-dir", str(folder / f"work-{host}"), found[1])
            _wait_for(daemons.enter_context(_daemon(folder, "worker.Worker", host, *own)), REGISTERED)
        yield found[1]


@contextlib.contextmanager
def _daemon(folder: Path, name: str, host: str, *arguments: str) -> Iterator[Path]:
    """Run a part of the cluster at ports that the system chooses, and yield its log."""
    log = folder / f"{name}-{host}.log"
    where = ("--host", host, "--port", "0", "--webui-port", "0")
    command = [str(HOME / "bin/spark-class"), f"org.apache.spark.deploy.{name}", *where, *arguments]
    with log.open("ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=_environment(folder, host))
    try:
        yield log
    finally:
        _end(process)


def _environment(folder: Path, host: str) -> dict[str, str]:
    own = {
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": host,
        "SPARK_LOCAL_DIRS": str(folder / f"local-{host}"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": JVM,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }
    return os.environ | own


def _wait_for(log: Path, words: str) -> None:
    eventually_true(lambda: words in log.read_text(), within=240)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Stop it, which lets a worker end its executors first."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
