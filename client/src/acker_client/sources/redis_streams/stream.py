"""A stream of Redis as one consumer of a group reads it: reads, claims, keeps and acks messages."""

import logging
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from acker_client.sources._runner import MAX_EMIT, RETRY_WAIT_S
from acker_client.sources.redis_streams.connection import Connection, NotAnswered

MAX_TIMEOUT_S = 5.0
"""How long a command may take at most; less where messages become idle sooner."""
MAX_BLOCK_S = 1.0
"""How long Redis waits for a message at most."""
CLAIM_INTERVAL_S = 1.0
"""How often to look for messages of the group that are idle."""
MAX_CLAIM_CALLS = 10
"""So many calls one look takes at most; the next one goes on where it ended. Redis looks at ten entries a message."""
CHECK_INTERVAL_S = 0.25
"""How often to check which messages become idle soon."""
CLOSE_S = 10.0
"""How long to wait at the end until what is settled is acked."""
FIRST = "0-0"
"""Where a look for idle messages begins, and what its last answer says."""

CLAIM = """
local claimed = redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], 'COUNT', ARGV[5])
for _, entry in ipairs(claimed[2]) do
  entry[3] = redis.call('XPENDING', KEYS[1], ARGV[1], entry[1], entry[1], 1)[1][4]
end
return claimed
"""
"""Claims idle messages, and adds to each how often it was delivered, which XAUTOCLAIM does not say."""

SETTLE = """
local not_ours = {}
for at = 3, #ARGV, 2 do
  local id, action = ARGV[at], ARGV[at + 1]
  local ours = #redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1, ARGV[2]) > 0
  if action == 'ack' or (action == 'drop' and ours) then
    redis.call('XACK', KEYS[1], ARGV[1], id)
  elseif ours then
    ours = #redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id, 'IDLE', action, 'JUSTID') > 0
  end
  if not ours then
    not_ours[#not_ours + 1] = id
  end
end
return not_ours
"""
"""Acks messages, or sets for how many milliseconds they have been idle; gives those that this consumer does not have.

XCLAIM alone would take a message from the consumer that has claimed it meanwhile. JUSTID counts no delivery.
"""

REMOVE_CONSUMER = """
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) == 0 then
  redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
end
"""
"""Removes a consumer without messages; those of a consumer that is removed would never be delivered again."""

ACK, DROP = "ack", "drop"

_log = logging.getLogger("acker_client")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Message:
    """One entry as it was delivered; ``attempt`` counts its deliveries to the group, this one included.

    ``fields`` has the values as bytes, and names as text; a name that is no UTF-8 stays bytes, so that redis-py sends
    every field as it came.
    """

    id: str
    fields: Mapping[str | bytes, bytes]
    attempt: int


@dataclass(slots=True, kw_only=True)
class _InFlight:
    """A message that is delivered and not settled, and since when it is idle, by the monotonic clock."""

    message: Message
    renewed_s: float


class Stream:
    """A stream: reads and claims messages, and in a thread of its own keeps them from others and settles them."""

    def __init__(self, url: str, name: str, *, group: str, consumer: str | None, idle_s: float) -> None:
        timeout_s = min(MAX_TIMEOUT_S, idle_s / 4)
        self._connection = Connection(url, timeout_s=timeout_s)
        self._block_ms = int(min(MAX_BLOCK_S, timeout_s / 2) * 1_000)
        self._name = name
        self._group = group
        self._consumer = consumer or f"{socket.gethostname()}-{secrets.token_hex(4)}"
        self._idle_s = idle_s
        # Held while messages are renewed or settled, so that one does not undo the other.
        self._lock = threading.RLock()
        self._in_flight: dict[str, _InFlight] = {}  # by id
        self._settled: SimpleQueue[tuple[Message, str | float]] = SimpleQueue()  # a float: comes again after seconds
        self._claim_from = FIRST
        self._claim_at_s = 0.0
        self._ending = threading.Event()
        self._given_up = threading.Event()
        self.error: BaseException | None = None
        """What Redis has refused for good."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Keep messages from others and settle them until the block is left, and at most `CLOSE_S` longer."""
        thread = threading.Thread(target=self._run, name="acker-redis-stream", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ending.set()
            thread.join(CLOSE_S)
            self._given_up.set()
            if left := self._settled.qsize():
                _log.warning("%d messages were not settled, since Redis did not answer: they come again", left)
            self._connection.close()

    def receive(self, max_messages: int) -> list[Message]:
        """Claim messages that are idle, or read new ones; none if there are none, or Redis does not answer."""
        try:
            return self._claim_if_due(max_messages) or self._read(max_messages)
        except NotAnswered as error:
            self._wait(error)
            return []

    def ack(self, message: Message) -> None:
        """Ack a message soon."""
        self._settled.put((message, ACK))

    def drop(self, message: Message) -> None:
        """Ack a message soon, unless another consumer has claimed it."""
        self._settled.put((message, DROP))

    def retry(self, message: Message, *, after_s: float) -> None:
        """Let a consumer of the group claim a message again."""
        self._settled.put((message, after_s))

    def _read(self, max_messages: int) -> list[Message]:
        now_s = time.monotonic()
        streams = self._connection.ask(
            lambda client: client.xreadgroup(
                self._group, self._consumer, {self._name: ">"}, count=max_messages, block=self._block_ms
            )
        )
        entries = [(id_, fields, 1) for _, found in streams or () for id_, fields in found]
        return self._take_in(entries, now_s=now_s)

    def _claim_if_due(self, max_messages: int) -> list[Message]:
        """Claim messages, once a second; before, keep the own ones, which after an outage are idle, too."""
        if time.monotonic() < self._claim_at_s:
            return []
        self._renew()
        for _ in range(MAX_CLAIM_CALLS):
            found = self._claim(max_messages)
            if found:
                return found
            if self._claim_from == FIRST:
                break
        self._claim_at_s = time.monotonic() + min(CLAIM_INTERVAL_S, self._idle_s / 4)
        return []

    def _claim(self, max_messages: int) -> list[Message]:
        now_s = time.monotonic()
        following, claimed, deleted = self._ask(
            CLAIM, self._consumer, int(self._idle_s * 1_000), self._claim_from, max_messages
        )
        self._claim_from = following.decode()
        for id_ in deleted:
            _log.warning("message %s was deleted from stream %s before it was processed", id_.decode(), self._name)
        entries = [
            (id_, dict(zip(flat[::2], flat[1::2], strict=True)), int(deliveries)) for id_, flat, deliveries in claimed
        ]
        return self._take_in(entries, now_s=now_s)

    def _take_in(self, entries: Sequence[tuple[bytes, Mapping[bytes, bytes], int]], *, now_s: float) -> list[Message]:
        messages = [
            Message(
                id=id_.decode(),
                fields={_read_name(name): value for name, value in fields.items()},
                attempt=attempt,
            )
            for id_, fields, attempt in entries
        ]
        with self._lock:
            for message in messages:
                self._in_flight[message.id] = _InFlight(message=message, renewed_s=now_s)
        return messages

    def _run(self) -> None:
        try:
            while not (self._ending.is_set() and self._settled.empty()) and not self._given_up.is_set():
                self._settle_or_wait(self._take())
            if not self._given_up.is_set():
                self._ask(REMOVE_CONSUMER)
        except NotAnswered:
            pass  # the consumer stays, without messages
        except BaseException as error:  # noqa: BLE001 - run() of the spout raises it
            self.error = error

    def _take(self) -> list[tuple[Message, str | float]]:
        """Take messages that are settled; none if none is within `CHECK_INTERVAL_S`."""
        found: list[tuple[Message, str | float]] = []
        with suppress(Empty):
            found.append(self._settled.get(timeout=CHECK_INTERVAL_S))
            while len(found) < MAX_EMIT:
                found.append(self._settled.get_nowait())
        return found

    def _settle_or_wait(self, settled: Sequence[tuple[Message, str | float]]) -> None:
        """Settle messages and keep the others; what Redis does not answer is settled later."""
        try:
            self._settle(settled)
        except NotAnswered as error:
            for one in settled:
                self._settled.put(one)
            self._wait(error)
            return
        try:
            self._renew()
        except NotAnswered as error:
            self._wait(error)

    def _settle(self, settled: Sequence[tuple[Message, str | float]]) -> None:
        with self._lock:
            actions = {
                message.id: str(self._idle_ms(action)) if isinstance(action, float | int) else action
                for message, action in settled
                if action == ACK or self._has(message)
            }
            for id_ in self._send(actions):
                if actions[id_] != ACK:
                    _log.warning("message %s is not of this consumer any more: it is not settled", id_)
            for message, _ in settled:
                if self._has(message):
                    del self._in_flight[message.id]

    def _has(self, message: Message) -> bool:
        """Whether this delivery of a message is the last that is known here."""
        known = self._in_flight.get(message.id)
        return known is not None and known.message is message

    def _idle_ms(self, after_s: float) -> int:
        """Return how long a message has to be idle already to be claimed after so many seconds."""
        return max(0, int((self._idle_s - after_s) * 1_000))

    def _renew(self) -> None:
        """Keep those messages that others could claim within half of the time."""
        with self._lock:
            now_s = time.monotonic()
            due = [id_ for id_, one in self._in_flight.items() if now_s - one.renewed_s >= self._idle_s / 2]
            for at in range(0, len(due), MAX_EMIT):
                part = due[at : at + MAX_EMIT]
                for id_ in self._send(dict.fromkeys(part, "0")):
                    _log.warning("message %s was claimed by another consumer, or deleted, while its tree is open", id_)
                    del self._in_flight[id_]
                for id_ in self._in_flight.keys() & part:
                    self._in_flight[id_].renewed_s = now_s

    def _send(self, actions: Mapping[str, str]) -> list[str]:
        """Settle or keep messages; return those that this consumer does not have."""
        if not actions:
            return []
        pairs = (word for pair in actions.items() for word in pair)
        return [id_.decode() for id_ in self._ask(SETTLE, self._consumer, *pairs)]

    def _ask(self, script: str, *arguments: str | int) -> Any:
        """Run a script on the stream, with the group before its arguments."""
        words = arguments or (self._consumer,)
        return self._connection.ask(lambda client: client.eval(script, 1, self._name, self._group, *words))

    def _wait(self, error: NotAnswered) -> None:
        """Wait before Redis is asked again."""
        _log.warning("Redis does not answer for stream %s: %s", self._name, error)
        self._given_up.wait(RETRY_WAIT_S)


def _read_name(name: bytes) -> str | bytes:
    try:
        return name.decode()
    except UnicodeDecodeError:
        return name
