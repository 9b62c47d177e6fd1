"""Compares what a group has committed with what is processed, again and again."""

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Collection

from acker_client import Acker, FailTuple
from confluent_kafka import Consumer, KafkaException, TopicPartition

from examples.support.kafka import KafkaBroker
from tests.support.kafka import LONG

PAUSE_S = 0.2


def read_offsets(kafka: KafkaBroker, topic: str, partitions: int, count: int) -> dict[int, list[int]]:
    """Read the offsets of so many records: those of committed transactions."""
    offsets: dict[int, list[int]] = {partition: [] for partition in range(partitions)}
    config = {"bootstrap.servers": kafka.address, "group.id": "unused", "auto.offset.reset": "earliest", "log_level": 2}
    consumer = Consumer({**config, "enable.auto.commit": False, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    while sum(map(len, offsets.values())) < count:
        message = consumer.poll(30)
        assert message is not None, f"{count} records are not there, but {offsets}"
        if message.error() is None:
            offsets[message.partition()].append(message.offset())
    consumer.close()
    return offsets


class Bolt:
    """Processes the tuples of the topic ``work`` in a thread; ``chance`` says of each what happens: "lose", "fail".

    ``processed`` holds the message ids whose work is done, ``tries`` counts the deliveries of each.
    """

    def __init__(
        self, kafka: KafkaBroker, acker: Acker, topic: str, *, chance: Callable[[], str | None] = lambda: None
    ) -> None:
        self.processed: set[str] = set()
        self.tries: Counter[str] = Counter()
        self._acker = acker
        self._chance = chance
        config = {"bootstrap.servers": kafka.address, "group.id": f"bolt-{topic}", "log_level": 2}
        self._consumer = Consumer({**config, "auto.offset.reset": "earliest"})
        self._consumer.subscribe([topic])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """Stop."""
        self._stop.set()
        self._thread.join(LONG)
        self._consumer.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            key = message.key().decode()
            self.tries[key] += 1
            if (happens := self._chance()) != "lose":
                with self._acker.receive(message.headers(), component="work"):
                    if happens == "fail":
                        raise FailTuple("it does not work")
                    self.processed.add(key)


class Auditor:
    """Samples what a group has committed, in a thread.

    ``too_early`` holds what was committed and not processed, ``went_back`` how often a committed offset went back.
    """

    def __init__(
        self, kafka: KafkaBroker, group: str, topic: str, offsets: dict[int, list[int]], processed: Collection[str]
    ) -> None:
        self.too_early: set[str] = set()
        self.went_back: list[tuple[int, int, int]] = []
        self.committed: dict[int, int] = dict.fromkeys(offsets, 0)
        self.samples = 0
        self._topic = topic
        self._offsets = offsets
        self._processed = processed
        self._consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": group, "log_level": 2})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def is_complete(self) -> bool:
        """Whether all records are committed."""
        return all(not found or self.committed[each] > found[-1] for each, found in self._offsets.items())

    def stop(self) -> None:
        """Stop."""
        self._stop.set()
        self._thread.join(LONG)
        self._consumer.close()

    def _run(self) -> None:
        while not self._stop.wait(PAUSE_S):
            with contextlib.suppress(KafkaException):
                self._sample()

    def _sample(self) -> None:
        asked = [TopicPartition(self._topic, partition) for partition in self._offsets]
        for found in self._consumer.committed(asked, timeout=3):
            if found.error is None and found.offset >= 0:
                self._compare(found.partition, found.offset)
        self.samples += 1

    def _compare(self, partition: int, offset: int) -> None:
        if offset < (before := self.committed[partition]):
            self.went_back.append((partition, before, offset))
        self.committed[partition] = offset
        below = (f"{self._topic}/{partition}/{each}" for each in self._offsets[partition] if each < offset)
        self.too_early.update(key for key in below if key not in self._processed)
