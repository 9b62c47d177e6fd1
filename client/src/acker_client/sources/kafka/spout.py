"""Reads topics of Kafka as a spout, as a member of a consumer group."""

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Literal

from acker_client.errors import UsageError
from acker_client.sources._runner import MAX_EMIT, Handlers, Runner, Settlements
from acker_client.sources.kafka.assignments import Assignments, Record, next_attempt
from acker_client.sources.kafka.group import GroupConsumer, group_config

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

    from acker_client.completions import Completion
    from acker_client.root import Root
    from acker_client.sync.client import Acker

POLL_S = 0.05
"""How long to wait for a record; completions are settled, and offsets committed, at the latest so often."""

Send = Callable[["Root", Record], Any]
"""Anchors the children of a root and sends them: ``producer.produce(…, headers=root.anchor(key).kafka_headers())``."""

_log = logging.getLogger("acker_client")

Settlement = Literal["retry", "skip"]


class SkipRecord(Exception):
    """Raised by ``send`` to skip a record at once: nothing is emitted for it, and its offset may be committed."""


class KafkaSpout:
    """Emits a root for every record, and commits an offset when the trees of all records below it are processed.

    ``spout`` is the name of the spout, ``config`` holds the consumer's settings as confluent-kafka takes them, with a
    ``group.id``; `UsageError` for those that would lose records. A root that failed or timed out is settled as
    ``on_failed`` says: "retry" (the record stays in memory and is emitted again, under a new root with the same message
    id, after ``retry_delay`` seconds, doubled each time up to ``retry_delay_max``), "skip" (its offset may be
    committed), or a function of its completion and the record that gives one of the two. `SkipRecord` raised by
    ``send`` skips a record at once; any other exception ends ``run``. ``on_completed`` is called with each completion
    and its record, also where the record is retried. All functions are called in the thread of ``run``.

    A partition has at most ``max_uncommitted`` records that are read and not committed; then it is paused. Offsets are
    committed every ``commit_interval`` seconds, for partitions that this consumer holds then. When a partition is
    revoked or lost, completions of its records settle nothing: its next owner reads them again.
    """

    def __init__(
        self,
        acker: "Acker",
        *,
        spout: str,
        config: Mapping[str, Any],
        topics: Sequence[str],
        send: Send,
        max_uncommitted: int = 1_000,
        on_failed: "Settlement | Callable[[Completion, Record], Settlement]" = "retry",
        retry_delay: float = 1.0,
        retry_delay_max: float = 60.0,
        commit_interval: float = 1.0,
        on_completed: "Callable[[Completion, Record], Any] | None" = None,
    ) -> None:
        if isinstance(topics, str) or not topics:
            raise UsageError("topics must be a list of the names of topics")
        if max_uncommitted < 1 or min(retry_delay, retry_delay_max, commit_interval) < 0:
            raise UsageError("max_uncommitted must be at least 1, and no delay or interval may be negative")
        client = acker.config
        self._config = group_config(config, emit_takes_s=client.retry_timeout + client.emit_timeout)
        self._topics = topics
        self._send_record = send
        self._settlements: Settlements[Record] = Settlements(on_failed, "retry", "skip")
        self._on_completed = on_completed
        self._retry_delay_s = retry_delay
        self._retry_delay_max_s = retry_delay_max
        self._commit_interval_s = commit_interval
        self._commit_at_s = 0.0
        self._assignments = Assignments(max_uncommitted=max_uncommitted)
        self._waiting: deque[Record] = deque()
        self._completions: SimpleQueue[Completion] = SimpleQueue()
        handlers: Handlers[Record] = Handlers(
            message_id=lambda record: record.message_id,
            send=self._send,
            rejection=SkipRecord,
            on_rejected=lambda record: record.assignment.ack(record),
            on_untracked=lambda _: None,
            on_completion=self._completions.put,
        )
        self._runner = Runner(acker, spout=spout, handlers=handlers)
        self._cap: int | None = None

    def run(self, *, stop: Callable[[], bool], drain_timeout: float = 30.0) -> None:
        """Read the topics until ``stop()`` is true; then take no more, and wait for what is pending, at most so long.

        Runs once; an asyncio program runs it by ``asyncio.to_thread``. What is not committed by then is read again by
        the next owner of its partition. Raises ``KafkaException`` for fatal errors of the consumer and for commits that
        are refused for good, `UnknownTopology`, `UsageError` the second time, and what the functions raise.
        """
        self._runner.begin(self)
        self._cap = self._runner.spout.max_pending()
        self._consumer = GroupConsumer(
            self._config, self._topics, on_assigned=self._assigned, on_revoked=self._revoked, on_lost=self._lost
        )
        try:
            with self._runner.reading():
                while self._runner.error is None and not stop():
                    self._turn()
                self._drain(until_s=time.monotonic() + drain_timeout)
        finally:
            self._consumer.close()
        if self._runner.error is not None:
            raise self._runner.error

    def __len__(self) -> int:
        """How many records wait for their trees."""
        return len(self._runner.pending)

    def _turn(self) -> None:
        """Read, commit, emit, settle.

        Commits come right after polls, which tell what is still held: to emit may take longer than a session.
        """
        self._pause_what_is_full()
        self._read()
        self._commit_what_is_due()
        self._waiting.extend(self._assignments.pop_due(time.monotonic()))
        self._emit()
        self._settle()

    def _drain(self, *, until_s: float) -> None:
        """Wait for what is pending, and take no more; polls keep the partitions, which ``close`` commits."""
        self._waiting.clear()
        while self._runner.error is None and len(self._runner.pending) and time.monotonic() < until_s:
            self._consumer.set_paused(self._assignments, paused=True)
            self._consumer.poll(POLL_S)
            self._commit_what_is_due()
            self._settle()

    def _pause_what_is_full(self) -> None:
        """Pause all partitions while records wait that the acker does not accept; else those that are full."""
        held = bool(self._waiting)
        for paused in (True, False):
            changed = [each for each in self._assignments if (held or each.is_full) is paused]
            self._consumer.set_paused(changed, paused=paused)

    def _read(self) -> None:
        """Read records. Paused partitions give none, but a member that does not poll is thrown out of its group."""
        message = self._consumer.poll(POLL_S if self._completions.empty() else 0)
        while message is not None:
            if (record := self._assignments.read(message)) is not None:
                self._waiting.append(record)
                if record.assignment.is_full:
                    self._consumer.set_paused([record.assignment], paused=True)
            message = self._consumer.poll(0) if len(self._waiting) < MAX_EMIT else None

    def _emit(self) -> None:
        """Emit as many roots as may be pending; records that the acker does not accept are emitted again."""
        free = MAX_EMIT if self._cap is None else min(MAX_EMIT, self._cap - len(self._runner.pending))
        records: list[Record] = []
        while self._waiting and len(records) < free:
            if not (record := self._waiting.popleft()).assignment.is_over:
                records.append(record)
        if not records:
            return
        for record in self._runner.emit(records):
            record.assignment.retry(record, at_s=time.monotonic() + self._retry_delay_s)

    def _send(self, root: "Root", record: Record) -> None:
        root.attempt = record.attempt
        self._send_record(root, record)

    def _settle(self) -> None:
        """Settle the records of the completions that have come."""
        while True:
            try:
                completion = self._completions.get_nowait()
            except Empty:
                return
            record = self._runner.pending.pop(completion.root_id)
            if record is not None and not record.assignment.is_over:
                self._settle_one(completion, record)

    def _settle_one(self, completion: "Completion", record: Record) -> None:
        if completion.acked or self._settlements.find(completion, record) == "skip":
            record.assignment.ack(record)
        else:
            delay_s = min(self._retry_delay_s * 2 ** min(record.attempt - 1, 30), self._retry_delay_max_s)
            record.assignment.retry(next_attempt(record), at_s=time.monotonic() + delay_s)
            _log.warning(
                "record %s %s at attempt %d (%s): it is emitted again in %g s; commits of its partition wait for it",
                record.message_id,
                completion.outcome.replace("_", " "),
                record.attempt,
                completion.reason or "no reason given",
                delay_s,
            )
        if self._on_completed is not None:
            self._on_completed(completion, record)

    def _commit_what_is_due(self) -> None:
        """Commit once in the interval, and sooner where a full partition waits for it."""
        now_s = time.monotonic()
        if now_s >= self._commit_at_s or any(each.paused and each.commit_position for each in self._assignments):
            self._consumer.commit(self._assignments)
            self._commit_at_s = now_s + self._commit_interval_s

    def _assigned(self, partitions: "Sequence[TopicPartition]") -> None:
        self._assignments.start(partitions)
        self._drop_what_is_over()

    def _revoked(self, partitions: "Sequence[TopicPartition]") -> None:
        """Commit what is processed, without waiting for trees: the group waits until this returns."""
        try:
            self._consumer.commit(self._assignments.find(partitions))
        finally:
            self._lost(partitions)

    def _lost(self, partitions: "Sequence[TopicPartition]") -> None:
        """End assignments without a commit: they may be another member's already."""
        self._assignments.end(partitions)
        self._drop_what_is_over()

    def _drop_what_is_over(self) -> None:
        self._runner.pending.drop(lambda record: record.assignment.is_over)
