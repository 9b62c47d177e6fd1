"""A queue of SQS: receives messages, keeps them invisible, and deletes them or lets them come again."""

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from botocore.exceptions import (
    ClientError,
    ConnectionError,  # noqa: A004 - that of botocore
    CredentialRetrievalError,
    HTTPClientError,
    MetadataRetrievalError,
)

from acker_client.errors import UsageError
from acker_client.sources._runner import RETRY_WAIT_S
from acker_client.sources.sqs.headers import headers_of

if TYPE_CHECKING:
    from acker_protocol.anchors import Anchors

MAX_BATCH = 10
"""The most messages that one request to SQS may receive, delete or keep invisible."""
MAX_VISIBILITY_S = 43_200
"""SQS keeps no message invisible for longer than twelve hours after it was received."""
MARGIN_S = 60
"""So long before these are over the last extension ends."""
POLL_S = 1
"""How long SQS waits for a message."""
CHECK_INTERVAL_S = 0.5
"""How often to check which messages become visible soon."""
CLOSE_S = 10.0
"""How long to wait at the end until what is settled is deleted."""
SERVER_ERROR, TOO_MANY_REQUESTS = 500, 429
THROTTLED = frozenset(
    {"RequestThrottled", "Throttling", "ThrottlingException", "TooManyRequestsException", "OverLimit"}
    | {"KmsThrottled", "KMS.ThrottlingException"}
)
NOT_ANSWERED = (ConnectionError, HTTPClientError, CredentialRetrievalError, MetadataRetrievalError)

_log = logging.getLogger("acker_client")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Message:
    """One message as it was received; ``attempt`` is SQS's approximate count of its deliveries, this one included.

    ``attributes`` are those of SQS, such as ``MessageGroupId``; ``headers`` are the sender's that are texts.
    """

    id: str
    body: str
    attempt: int
    attributes: Mapping[str, str]
    headers: Mapping[str, str]
    receipt: str = field(repr=False)


@dataclass(slots=True, kw_only=True)
class _InFlight:
    """A message that is received and not settled: when it was received and becomes visible, by the monotonic clock."""

    message: Message
    received_s: float
    visible_s: float


def message_attributes(anchors: "Anchors") -> dict[str, dict[str, str]]:
    """Write anchors as the ``MessageAttributes`` of a message that is sent."""
    return {name: {"DataType": "String", "StringValue": value} for name, value in anchors.headers().items()}


def check_timeouts(client: Any, *, visibility_s: int) -> None:
    """Raise `UsageError` for a client whose requests may take so long that messages become visible meanwhile."""
    config = client.meta.config
    retries = config.retries or {}
    attempts = retries.get("total_max_attempts") or retries.get("max_attempts", 2) + 1
    longest_s = attempts * (config.connect_timeout + config.read_timeout)
    if longest_s >= visibility_s / 2:
        raise UsageError(
            f"a request of this client may take {longest_s:g} s ({attempts} attempts of connect_timeout and "
            f"read_timeout), which has to be less than half of the visibility timeout of {visibility_s} s: give it "
            'config=Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 2}), or a longer '
            "visibility_timeout"
        )
    if config.read_timeout <= POLL_S:
        raise UsageError(f"read_timeout must be more than {POLL_S} s, for so long SQS waits for a message")


class Queue:
    """A queue of SQS: receives messages, and in a thread of its own keeps them invisible and settles them."""

    def __init__(self, client: Any, url: str, *, visibility_s: int) -> None:
        self._client = client
        self._url = url
        self._visibility_s = visibility_s
        self._lock = threading.Lock()
        self._in_flight: dict[str, _InFlight] = {}  # by receipt
        self._settled: SimpleQueue[tuple[Message, int | None]] = SimpleQueue()  # after how long it comes; None: deleted
        self._ending = threading.Event()
        self._given_up = threading.Event()
        self.error: BaseException | None = None
        """What SQS has refused for good."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Keep messages invisible and settle them until the block is left, and at most `CLOSE_S` longer."""
        thread = threading.Thread(target=self._run, name="acker-sqs", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ending.set()
            thread.join(CLOSE_S)
            self._given_up.set()
            if left := self._settled.qsize():
                _log.warning("%d messages were not settled, since SQS did not answer: they come again", left)

    def receive(self, max_messages: int) -> list[Message]:
        """Receive messages; none if there are none, or SQS does not answer."""
        now_s = time.monotonic()
        answer = self._request(
            "receive_message",
            MaxNumberOfMessages=min(max_messages, MAX_BATCH),
            WaitTimeSeconds=POLL_S,
            VisibilityTimeout=self._visibility_s,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        found = [_read(entry) for entry in (answer or {}).get("Messages", ())]
        with self._lock:
            for message in found:
                self._in_flight[message.receipt] = _InFlight(
                    message=message, received_s=now_s, visible_s=now_s + self._visibility_s
                )
        return found

    def ack(self, message: Message) -> None:
        """Delete a message soon."""
        self._settled.put((message, None))

    def drop(self, message: Message) -> None:
        """Delete a message soon."""
        self._settled.put((message, None))

    def retry(self, message: Message, *, after_s: float) -> None:
        """Let SQS deliver a message again, after whole seconds."""
        self._settled.put((message, int(after_s)))

    def _run(self) -> None:
        try:
            while not (self._ending.is_set() and self._settled.empty()) and not self._given_up.is_set():
                self._settle(self._take())
                self._extend()
        except BaseException as error:  # noqa: BLE001 - run() of the spout raises it
            self.error = error

    def _take(self) -> list[tuple[Message, int | None]]:
        """Take messages that are settled, as many as go in a request; none if none is within `CHECK_INTERVAL_S`."""
        found: list[tuple[Message, int | None]] = []
        with suppress(Empty):
            found.append(self._settled.get(timeout=CHECK_INTERVAL_S))
            while len(found) < MAX_BATCH:
                found.append(self._settled.get_nowait())
        return found

    def _settle(self, settled: Sequence[tuple[Message, int | None]]) -> None:
        """Delete messages or let them come again; those for which SQS did not do so are settled later."""
        deletes: dict[Message, dict[str, Any]] = {message: {} for message, after_s in settled if after_s is None}
        retries = {message: after_s for message, after_s in settled if after_s is not None}
        changes = {message: {"VisibilityTimeout": self._allowed_s(message, s)} for message, s in retries.items()}
        not_deleted = self._send("delete_message_batch", deletes)
        for message in not_deleted:
            self.drop(message)
        not_changed = self._send("change_message_visibility_batch", changes)
        for message in not_changed:
            self.retry(message, after_s=retries[message])
        self._forget({*deletes, *retries} - {*not_deleted, *not_changed})

    def _extend(self) -> None:
        """Keep those messages invisible that would become visible within half of the time."""
        now_s = time.monotonic()
        with self._lock:
            due = [one.message for one in self._in_flight.values() if one.visible_s - now_s < self._visibility_s / 2]
        for at in range(0, len(due), MAX_BATCH):
            longer = {message: self._allowed_s(message, self._visibility_s) for message in due[at : at + MAX_BATCH]}
            over = [message for message, allowed_s in longer.items() if allowed_s <= 0]
            for message in over:
                _log.warning("message %s is open for twelve hours: SQS delivers it again", message.id)
            self._forget(over)
            changes = {message: {"VisibilityTimeout": s} for message, s in longer.items() if s > 0}
            left = self._send("change_message_visibility_batch", changes)
            with self._lock:
                for message in changes.keys() - set(left):
                    if message.receipt in self._in_flight:
                        self._in_flight[message.receipt].visible_s = now_s + longer[message]
            if left:
                return  # SQS is asked again after the next settlements

    def _allowed_s(self, message: Message, wanted_s: int) -> int:
        """Bound a visibility timeout by the twelve hours; SQS would refuse a longer one."""
        with self._lock:
            known = self._in_flight.get(message.receipt)
        elapsed_s = time.monotonic() - known.received_s if known else 0.0
        return max(0, min(wanted_s, int(MAX_VISIBILITY_S - MARGIN_S - elapsed_s)))

    def _forget(self, messages: Iterable[Message]) -> None:
        with self._lock:
            for message in messages:
                self._in_flight.pop(message.receipt, None)

    def _send(self, operation: str, changes: Mapping[Message, Mapping[str, Any]]) -> list[Message]:
        """Send a request for several messages; give those for which it is to be sent again.

        A message that SQS refuses is forgotten: its receipt has expired, since it was delivered again or deleted.
        """
        if not changes:
            return []
        messages = list(changes)
        entries = [
            {"Id": str(number), "ReceiptHandle": message.receipt, **changes[message]}
            for number, message in enumerate(messages)
        ]
        answer = self._request(operation, Entries=entries)
        if answer is None:
            return messages
        left = []
        for entry in answer.get("Failed", ()):
            message = messages[int(entry["Id"])]
            if entry["SenderFault"]:
                _log.warning("SQS refused %s of message %s: %s", operation, message.id, entry.get("Message", ""))
                self._forget([message])
            else:
                left.append(message)
        return left

    def _request(self, operation: str, **arguments: Any) -> Mapping[str, Any] | None:
        """Send a request; None if SQS does not answer, or has too much to do. Raises what it refuses for good."""
        try:
            answer: Mapping[str, Any] = getattr(self._client, operation)(QueueUrl=self._url, **arguments)
        except NOT_ANSWERED as error:
            _log.warning("SQS did not answer %s: %s", operation, error)
        except ClientError as error:
            if not _is_transient(error):
                raise
            _log.warning("SQS refused %s for now: %s", operation, error)
        else:
            return answer
        self._given_up.wait(RETRY_WAIT_S)
        return None


def _is_transient(error: ClientError) -> bool:
    """Whether a request that SQS has refused may be sent again."""
    status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    return bool(status >= SERVER_ERROR or status == TOO_MANY_REQUESTS or error.response["Error"]["Code"] in THROTTLED)


def _read(received: Mapping[str, Any]) -> Message:
    attributes = received.get("Attributes", {})
    return Message(
        id=received["MessageId"],
        body=received["Body"],
        attempt=int(attributes.get("ApproximateReceiveCount", 1)),
        attributes=attributes,
        headers=headers_of(received),
        receipt=received["ReceiptHandle"],
    )
