"""A topic as a test sees it: records with headers, in transactions or not, and what stands in it."""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from examples.support.kafka import KafkaBroker

PATIENCE_S = 60.0

Headers = list[tuple[str, bytes | None]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record to produce; a null value is a tombstone."""

    key: str | None = None
    value: str | None = None
    headers: Headers = None

    def produce(self, producer: Producer, topic: str) -> None:
        """Give it to a producer."""
        producer.produce(topic, self.value, self.key, headers=self.headers, partition=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic of one partition."""

    kafka: KafkaBroker
    name: str

    @classmethod
    def create(cls, kafka: KafkaBroker, name: str) -> Self:
        """Create it."""
        kafka.create_topic(name)
        return cls(kafka=kafka, name=name)

    def produce(self, *records: Record) -> None:
        """Produce records."""
        producer = Producer({"bootstrap.servers": self.kafka.address, "log_level": 2})
        for record in records:
            record.produce(producer, self.name)
        assert producer.flush(PATIENCE_S) == 0

    def transact(self, *transactions: tuple[bool, Sequence[Record]]) -> None:
        """Produce the records of transactions, each of which is then committed if it says so, or aborted.

        All are written before: what is aborted stands in the topic.
        """
        producer = Producer(
            {"bootstrap.servers": self.kafka.address, "transactional.id": secrets.token_hex(4), "log_level": 2}
        )
        producer.init_transactions(PATIENCE_S)
        for is_committed, records in transactions:
            producer.begin_transaction()
            for record in records:
                record.produce(producer, self.name)
            assert producer.flush(PATIENCE_S) == 0
            (producer.commit_transaction if is_committed else producer.abort_transaction)(PATIENCE_S)

    def read(self) -> list[Message]:
        """Read all of it."""
        config = {"bootstrap.servers": self.kafka.address, "group.id": "reader", "enable.partition.eof": True}
        consumer = Consumer(config)
        try:
            consumer.assign([TopicPartition(self.name, 0, OFFSET_BEGINNING)])
            return list(_until_end(consumer))
        finally:
            consumer.close()

    def stream(self, spark: Any, **options: str) -> Any:
        """Read it as a stream, from its beginning, with headers; underscores in names stand for dots."""
        wanted = {
            "kafka.bootstrap.servers": self.kafka.address,
            "subscribe": self.name,
            "startingOffsets": "earliest",
            "includeHeaders": "true",
            **{name.replace("_", "."): value for name, value in options.items()},
        }
        return spark.readStream.format("kafka").options(**wanted).load()


def _until_end(consumer: Consumer) -> Iterator[Message]:
    while True:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        if message.error() is None:
            yield message
        elif message.error().code() == KafkaError._PARTITION_EOF:
            return
        else:
            raise AssertionError(message.error())
