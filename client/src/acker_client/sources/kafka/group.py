"""A member of a consumer group: its settings, and its commits."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from acker_client.errors import UsageError
from acker_client.sources.kafka.assignments import Assignment

if TYPE_CHECKING:
    from confluent_kafka import Message

OnPartitions = Callable[[Sequence[TopicPartition]], None]

DEFAULTS = {"auto.offset.reset": "earliest", "partition.assignment.strategy": "cooperative-sticky"}
FIXED = {"enable.auto.commit": False, "enable.auto.offset.store": False}
DEFAULT_MAX_POLL_INTERVAL_MS = 300_000
DEFAULT_SESSION_TIMEOUT_MS = 45_000
LEAVE_POLL_S = 0.05
"""How long to wait, each time, for partitions to be revoked from a member that leaves."""

NOT_YET = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 - librdkafka's own errors begin with an underscore
        KafkaError._IN_PROGRESS,  # noqa: SLF001
        KafkaError._NO_OFFSET,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._STATE,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._WAIT_COORD,  # noqa: SLF001
    }
)
"""A commit with one of these is made again later."""

OVER = frozenset(
    {
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.GROUP_ID_NOT_FOUND,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._ASSIGNMENT_LOST,  # noqa: SLF001
    }
)
"""With one of these the member is out of the group, or the topic is gone: the next polls tell what it still holds."""

_log = logging.getLogger("acker_client")


def group_config(config: Mapping[str, Any], *, emit_takes_s: float) -> dict[str, Any]:
    """Complete the settings of a consumer; ``emit_takes_s`` is how long one turn may wait for the acker.

    Raises `UsageError` for those that would lose records.
    """
    if not config.get("group.id"):
        raise UsageError("config needs a group.id: offsets are committed for a group")
    for name in FIXED:
        if _is_true(config.get(name, False)):
            raise UsageError(f"{name} must not be true: it commits records whose trees are not processed")
    if str(config.get("auto.offset.reset", "earliest")).lower() not in {"earliest", "smallest", "beginning", "error"}:
        raise UsageError("auto.offset.reset must be earliest or error: else records of a new partition are skipped")
    interval_ms = int(config.get("max.poll.interval.ms", DEFAULT_MAX_POLL_INTERVAL_MS))
    if interval_ms <= emit_takes_s * 1000:
        raise UsageError(
            f"max.poll.interval.ms is {interval_ms}, but to emit roots may take {emit_takes_s:g} s while the acker is "
            "away: raise it, or lower retry_timeout and emit_timeout of the client"
        )
    defaults = dict(DEFAULTS)
    if config.get("group.protocol") == "consumer":
        del defaults["partition.assignment.strategy"]  # the broker assigns
    return {**defaults, **config, **FIXED}


class GroupConsumer:
    """A consumer of a group. Its callbacks come from within `poll` and `close`: never two at a time."""

    def __init__(
        self,
        config: dict[str, Any],
        topics: Sequence[str],
        *,
        on_assigned: OnPartitions,
        on_revoked: OnPartitions,
        on_lost: OnPartitions,
    ) -> None:
        self._session_s = int(config.get("session.timeout.ms", DEFAULT_SESSION_TIMEOUT_MS)) / 1000
        self._consumer = Consumer(config)
        self._consumer.subscribe(
            list(topics),
            on_assign=lambda _, partitions: on_assigned(partitions),
            on_revoke=lambda _, partitions: on_revoked(partitions),
            on_lost=lambda _, partitions: on_lost(partitions),
        )

    def poll(self, timeout: float) -> "Message | None":
        """Read one record. Not by ``consume``: its list may hold records of an assignment that ended meanwhile.

        Raises ``KafkaException`` for a fatal error; librdkafka recovers from the others, which are logged.
        """
        message = self._consumer.poll(timeout)
        if message is None or (error := message.error()) is None:
            return message
        if error.fatal():
            raise KafkaException(error)
        if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
            _log.warning("kafka: %s", error)
        return None

    def set_paused(self, assignments: Iterable[Assignment], *, paused: bool) -> None:
        """Pause or resume partitions."""
        changed = [each for each in assignments if each.paused is not paused]
        if not changed:
            return
        partitions = [TopicPartition(each.topic, each.partition) for each in changed]
        if paused:
            self._consumer.pause(partitions)
        else:
            self._consumer.resume(partitions)
        for each in changed:
            each.paused = paused

    def commit(self, assignments: Iterable[Assignment]) -> None:
        """Commit what is new of assignments; what cannot be committed now stays.

        It waits for the answer: two commits in flight could be applied in the wrong order. Raises ``KafkaException``
        for errors that trying again does not mend.
        """
        positions = {
            (each.topic, each.partition): (each, position)
            for each in assignments
            if (position := each.commit_position) is not None
        }
        if not positions:
            return
        offsets = [TopicPartition(topic, partition, at) for (topic, partition), (_, at) in positions.items()]
        try:
            results = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            check_commit_error(error.args[0])
            return
        for result in results:
            if result.error is not None:
                check_commit_error(result.error)
            else:
                assignment, position = positions[result.topic, result.partition]
                assignment.commit(position)

    def close(self) -> None:
        """Leave the group; after the time of a session, in which it loses this member anyway, without its answer.

        Raises what the callbacks raise.
        """
        errors: list[BaseException] = []
        leaving = threading.Thread(target=self._leave, args=[errors], name="acker-kafka-leave", daemon=True)
        leaving.start()
        leaving.join(self._session_s)
        if leaving.is_alive():
            _log.warning("the consumer did not close within %g s, and is left as it is", self._session_s)
        elif errors:
            raise errors[0]

    def _leave(self, errors: list[BaseException]) -> None:
        try:
            try:
                self._give_up_partitions(until_s=time.monotonic() + self._session_s / 2)
            finally:
                self._consumer.close()
        except BaseException as error:  # noqa: BLE001 - close() raises it
            errors.append(error)

    def _give_up_partitions(self, *, until_s: float) -> None:
        """Have all partitions revoked before the consumer is closed.

        A consumer that is closed with partitions calls back from within its ``close``. Where the thread of librdkafka
        has ended its part of the group by then, neither a commit nor the unassignment that confluent-kafka adds to the
        callback is ever answered; the latter waits with the interpreter's lock.
        """
        self._consumer.unsubscribe()
        while (self._consumer.poll(LEAVE_POLL_S) is not None or self._consumer.assignment()) and (
            time.monotonic() < until_s
        ):
            self._consumer.unsubscribe()  # what was being assigned is revoked by another one


def check_commit_error(error: KafkaError) -> None:
    """Log an error of a commit after which the consumer goes on; raise ``KafkaException`` for any other."""
    if error.code() in NOT_YET:
        _log.warning("offsets cannot be committed now, and will be later: %s", error)
    elif error.code() in OVER:
        _log.warning("offsets are not committed, since the group goes on without this member: %s", error)
    else:
        raise KafkaException(error)


def _is_true(value: Any) -> bool:
    return str(value).lower() in {"true", "t", "1"}
