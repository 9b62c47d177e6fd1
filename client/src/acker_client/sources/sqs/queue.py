"""A queue of SQS: receives messages, keeps them invisible, and deletes them or lets them come again."""

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, ConnectionError, HTTPClientError  # noqa: A004 - that of botocore

if TYPE_CHECKING:
    from acker_protocol.anchors import Anchors

MAX_BATCH = 10
"""The most messages that one request to SQS may receive, delete or keep invisible."""
MAX_VISIBILITY_S = 43_200
"""SQS keeps no message invisible for longer than twelve hours after it was received."""
POLL_S = 1
"""How long SQS waits for a message."""
LOOK_S = 0.5
"""How often to look which messages become visible soon."""
AWAY_S = 1.0
"""How long to wait before SQS is asked again that did not answer."""
CLOSE_S = 10.0
"""How long to wait at the end until what is settled is deleted."""
SERVER_ERROR = 500
THROTTLED = frozenset({"RequestThrottled", "ThrottlingException", "OverLimit"})

_log = logging.getLogger("acker_client")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Message:
    """One message as it was received; ``attempt`` says how often SQS has delivered it, this time included.

    ``attributes`` are those of SQS, such as ``MessageGroupId``; ``headers`` are the sender's that are texts.
    """

    id: str
    body: str
    attempt: int
    attributes: Mapping[str, str]
    headers: Mapping[str, str]
    receipt: str = field(repr=False)


def message_attributes(anchors: "Anchors") -> dict[str, dict[str, str]]:
    """Write anchors as the ``MessageAttributes`` of a message that is sent."""
    return {name: {"DataType": "String", "StringValue": value} for name, value in anchors.headers().items()}


def headers_of(message: Mapping[str, Any]) -> dict[str, str]:
    """Give the attributes of a message of boto3 that are texts, the anchors among them."""
    attributes = message.get("MessageAttributes") or {}
    return {name: own["StringValue"] for name, own in attributes.items() if "StringValue" in own}


class Queue:
    """A queue of SQS: receives messages, and in a thread of its own keeps them invisible and settles them."""

    def __init__(self, client: Any, url: str, *, visibility_s: int) -> None:
        self._client, self._url, self._visibility_s = client, url, visibility_s
        self._lock = threading.Lock()
        self._held: dict[str, tuple[Message, float]] = {}  # by receipt; invisible until a moment of the monotonic clock
        self._settled: SimpleQueue[tuple[Message, int | None]] = SimpleQueue()  # when it comes again; None: deleted
        self._ended = threading.Event()
        self.error: BaseException | None = None
        """What SQS has refused for good."""

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Keep messages invisible and settle them, in a thread of its own, until the block is left."""
        keeper = threading.Thread(target=self._keep, name="acker-sqs", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            self._ended.set()
            keeper.join(CLOSE_S)

    def receive(self, most: int) -> list[Message]:
        """Receive messages; none if there are none, or SQS does not answer."""
        until_s = time.monotonic() + self._visibility_s
        wanted = {"MessageSystemAttributeNames": ["All"], "MessageAttributeNames": ["All"]}
        answer = self._ask(
            "receive_message",
            **wanted,
            MaxNumberOfMessages=most,
            WaitTimeSeconds=POLL_S,
            VisibilityTimeout=self._visibility_s,
        )
        found = [_read(one) for one in (answer or {}).get("Messages", ())]
        with self._lock:
            self._held |= {message.receipt: (message, until_s) for message in found}
        return found

    def delete(self, message: Message) -> None:
        """Delete a message soon."""
        self._settled.put((message, None))

    def retry(self, message: Message, *, after_s: int) -> None:
        """Let SQS deliver a message again."""
        self._settled.put((message, after_s))

    def _keep(self) -> None:
        try:
            while not (self._ended.is_set() and self._settled.empty()):
                self._settle(self._take())
                self._extend()
        except BaseException as error:  # noqa: BLE001 - run() of the spout raises it
            self.error = error

    def _take(self) -> list[tuple[Message, int | None]]:
        """Take messages that are settled, as many as go in a request; none if none is within `LOOK_S`."""
        found: list[tuple[Message, int | None]] = []
        with suppress(Empty):
            found.append(self._settled.get(timeout=LOOK_S))
            while len(found) < MAX_BATCH:
                found.append(self._settled.get_nowait())
        return found

    def _settle(self, settled: Sequence[tuple[Message, int | None]]) -> None:
        """Delete messages or let them come again; those of a request that was not answered are settled later."""
        with self._lock:
            for message, _ in settled:
                self._held.pop(message.receipt, None)
        deleted = [message for message, after_s in settled if after_s is None]
        again = {message: after_s for message, after_s in settled if after_s is not None}
        for message in self._send("delete_message_batch", {message: {} for message in deleted}):
            self.delete(message)
        changes = {message: {"VisibilityTimeout": after_s} for message, after_s in again.items()}
        for message in self._send("change_message_visibility_batch", changes):
            self.retry(message, after_s=again[message])

    def _extend(self) -> None:
        """Keep those messages invisible that would become visible within half of the time."""
        now_s = time.monotonic()
        with self._lock:
            due = [message for message, until_s in self._held.values() if until_s - now_s < self._visibility_s / 2]
        for at in range(0, len(due), MAX_BATCH):
            some = due[at : at + MAX_BATCH]
            self._send(
                "change_message_visibility_batch", {one: {"VisibilityTimeout": self._visibility_s} for one in some}
            )
            with self._lock:
                for message in some:
                    if message.receipt in self._held:
                        self._held[message.receipt] = message, now_s + self._visibility_s

    def _send(self, operation: str, changes: Mapping[Message, Mapping[str, Any]]) -> list[Message]:
        """Send a request for several messages; give those for which it is to be sent again.

        One that SQS refuses is no longer held by this spout: SQS has delivered it again, or deletes it.
        """
        if not changes:
            return []
        messages = list(changes)
        entries = [
            {"Id": str(number), "ReceiptHandle": message.receipt, **changes[message]}
            for number, message in enumerate(messages)
        ]
        answer = self._ask(operation, Entries=entries)
        if answer is None:
            return messages
        failed = {messages[int(one["Id"])]: one for one in answer.get("Failed", ())}
        for message, one in failed.items():
            if one["SenderFault"]:
                _log.warning("SQS refused %s of message %s: %s", operation, message.id, one.get("Message", one["Code"]))
                with self._lock:
                    self._held.pop(message.receipt, None)
        return [message for message, one in failed.items() if not one["SenderFault"]]

    def _ask(self, operation: str, **arguments: Any) -> Mapping[str, Any] | None:
        """Send a request; None if SQS does not answer, or has too much to do. Raises what it refuses."""
        try:
            answer: Mapping[str, Any] = getattr(self._client, operation)(QueueUrl=self._url, **arguments)
        except (ConnectionError, HTTPClientError) as error:
            reason: Exception = error
        except ClientError as error:
            if not _passes(error):
                raise
            reason = error
        else:
            return answer
        _log.warning("SQS did not answer %s: %s", operation, reason)
        self._ended.wait(AWAY_S)
        return None


def _passes(error: ClientError) -> bool:
    """Whether a request that SQS has refused may be sent again."""
    status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    return bool(status >= SERVER_ERROR or error.response["Error"]["Code"] in THROTTLED)


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
