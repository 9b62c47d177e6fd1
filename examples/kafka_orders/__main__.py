"""Runs the orders: ``python -m examples.kafka_orders``; exit 0 if no order is lost and all are committed."""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from acker_client import Acker
from confluent_kafka import Consumer, Producer, TopicPartition

from examples.kafka_orders.workers import GROUP, ROLES, Task
from examples.support.kafka import KafkaBroker, NoKafka, running_kafka
from examples.support.notices import read_notices, start_notice_service
from examples.support.ports import free_port
from examples.support.processes import Child, Died, Processes, processes_in
from examples.support.stopping import until_stopped

MESSAGE_TIMEOUT_S = 5.0
PARTITIONS = 2
WITHIN_S = 300.0


class Pipeline:
    """All processes of a run. Each can be killed, and is started again."""

    def __init__(self, processes: Processes, kafka: KafkaBroker, notices: str) -> None:
        self._processes = processes
        self._kafka = kafka
        self._port = free_port()
        self.acker = f"http://127.0.0.1:{self._port}"
        self._task = Task(role="", kafka=kafka.address, acker=self.acker, notices=notices)
        self._children = {name: self._start(name) for name in ("acker", *ROLES)}

    def kill(self, name: str) -> None:
        """Kill a process with SIGKILL, and start it again."""
        print(f"{name} is killed", flush=True)
        if name == "kafka":
            self._kafka.kill()
            self._kafka.start()
        else:
            self._children[name].kill()
            self._children[name] = self._start(name)

    def _start(self, name: str) -> Child:
        if name == "acker":
            options = ["--port", str(self._port), "--data-dir", str(self._processes.folder / "data")]
            return self._processes.start(name, [sys.executable, "-m", "acker_service", "serve", *options])
        task = json.dumps(asdict(replace(self._task, role=name)))
        return self._processes.start_module(name, "examples.kafka_orders.workers", task)


def run(kafka: KafkaBroker, folder: Path, *, orders: int) -> bool:
    """Run the orders, and kill each process once; give whether everything is as it must be."""
    for topic in ("orders", "authorise", "notify"):
        kafka.create_topic(topic, partitions=PARTITIONS)
    with processes_in(folder) as processes:
        notices = start_notice_service(processes)
        pipeline = Pipeline(processes, kafka, notices)
        with Acker(pipeline.acker, startup_timeout=None) as acker:
            acker.topologies.create("default", message_timeout=MESSAGE_TIMEOUT_S)
        victims = ["spout", "authorise", "notify", "kafka", "acker"]
        for number, victim in enumerate(victims):
            produce(kafka, range(orders * number // len(victims), orders * (number + 1) // len(victims)))
            wait_until(partial(has_noticed, notices, more_than=orders * number // len(victims)))
            pipeline.kill(victim)
        wait_until(lambda: committed(kafka) == orders)
        told = read_notices(notices)
    again = sum(sum(times.values()) > 1 for times in told.values())
    claims = {
        f"the webhook was called for each of the {orders} orders, for {again} of them more than once": len(told)
        == orders,
        f"all {orders} orders are committed": True,
        f"killed: {', '.join(victims)}": True,
    }
    for says, holds in claims.items():
        print("  proven" if holds else "  WRONG ", says, sep="  ")
    return all(claims.values())


def has_noticed(notices: str, *, more_than: int) -> bool:
    """Return whether the webhook was called for more than so many orders."""
    return len(read_notices(notices)) > more_than


def produce(kafka: KafkaBroker, numbers: range) -> None:
    """Put orders into Kafka."""
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 2})
    for number in numbers:
        producer.produce("orders", f"order-{number:05d}", partition=number % PARTITIONS)
    producer.flush()


def committed(kafka: KafkaBroker) -> int:
    """Count the orders that the group has committed."""
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": GROUP, "log_level": 2})
    found = consumer.committed([TopicPartition("orders", each) for each in range(PARTITIONS)], timeout=20)
    consumer.close()
    return sum(max(each.offset, 0) for each in found)


def wait_until(is_true: Callable[[], bool]) -> None:
    """Wait. Raises ``TimeoutError``."""
    until_s = time.monotonic() + WITHIN_S
    while not is_true():
        if time.monotonic() > until_s:
            raise TimeoutError(f"the orders did not get on within {WITHIN_S:.0f} s")
        time.sleep(0.2)


def main(arguments: list[str]) -> int:
    """Run it, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m examples.kafka_orders", description=__doc__)
    parser.add_argument("--orders", type=int, default=500, help="orders [500]")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="acker-kafka-") as name, running_kafka(Path(name) / "kafka") as kafka:
        return 0 if run(kafka, Path(name) / "run", orders=options.orders) else 1


if __name__ == "__main__":
    try:
        sys.exit(until_stopped(lambda: main(sys.argv[1:])))
    except (NoKafka, Died, TimeoutError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
