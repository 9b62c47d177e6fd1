"""A pull consumer of NATS JetStream: fetches messages, keeps them and settles them, in a thread with an event loop."""

import asyncio
import json
import logging
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from nats.aio.msg import Msg
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js.errors import APIError, BadRequestError, NotFoundError, ServiceUnavailableError

from acker_client.sources._runner import MAX_EMIT, RETRY_WAIT_S
from acker_client.sources.nats.children import check_child
from acker_client.sources.nats.connection import (
    CHECK_INTERVAL_S,
    NOT_ANSWERED,
    REFUSED,
    REQUEST_S,
    Connection,
    ack_wait_s,
)
from acker_client.sources.nats.messages import Message

FETCH_S = 1.0
"""How long NATS waits for a message."""
CONFIG_INTERVAL_S = 5.0
"""How often to read the consumer's configuration, and to see that the consumer is there."""
CLOSE_S = 10.0
"""How long to wait at the end until what is settled is acked."""

ACK, TERMINATE, IN_PROGRESS, NAK = b"", Msg.Ack.Term, Msg.Ack.Progress, Msg.Ack.Nak
_log = logging.getLogger("acker_client")


@dataclass(slots=True, kw_only=True)
class _InFlight:
    """A message that is delivered and not settled, and when NATS was last told to wait, by the monotonic clock."""

    message: Message
    renewed_s: float


class Consumer:
    """A pull consumer: fetches messages, and in a thread of its own keeps them from others and settles them."""

    def __init__(self, url: str | list[str], *, stream: str, name: str, options: Mapping[str, Any]) -> None:
        self._stream = stream
        self._name = name
        self._connection = Connection(url, options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pull: Any = None
        self._ack_wait_s = 0.0
        self._configured_s = 0.0
        self._in_flight: dict[str, _InFlight] = {}  # by id; only the event loop changes it
        self._settled: deque[tuple[Message, bytes]] = deque()
        self._publishing: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._ending = threading.Event()
        self._given_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="acker-nats", daemon=True)
        self.error: BaseException | None = None
        """What NATS has refused for good."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Keep messages from others and settle them until the block is left, and at most `CLOSE_S` longer."""
        self._thread.start()
        try:
            yield
        finally:
            self._ending.set()
            self._thread.join(CLOSE_S)
            self._given_up.set()
            if left := len(self._settled):
                _log.warning("%d messages were not settled, since NATS did not answer: they come again", left)

    def receive(self, max_messages: int) -> list[Message]:
        """Fetch messages; none if there are none, or NATS does not answer."""
        loop = self._loop
        if loop is None or self._pull is None:
            self._thread.join(CHECK_INTERVAL_S)
            return []
        fetching = self._fetch(max_messages)
        try:
            future: Future[list[Message]] = asyncio.run_coroutine_threadsafe(fetching, loop)
        except RuntimeError:  # the event loop has ended
            fetching.close()
            return []
        while self._thread.is_alive() and not wait([future], CHECK_INTERVAL_S).done:
            pass
        with suppress(CancelledError):
            return future.result(timeout=0) if future.done() else []
        return []

    def ack(self, message: Message) -> None:
        """Ack a message soon."""
        self._put(message, ACK)

    def drop(self, message: Message) -> None:
        """Terminate a message soon: NATS delivers it no more."""
        self._put(message, TERMINATE)

    def retry(self, message: Message, *, after_s: float) -> None:
        """Let NATS deliver a message again.

        Without a delay NATS does so at once; with one, however short, it adds what a later step of a backoff is longer
        than the first.
        """
        delay = b" " + json.dumps({"delay": int(after_s * 10**9)}).encode() if after_s > 0 else b""
        self._put(message, NAK + delay)

    def _put(self, message: Message, answer: bytes) -> None:
        self._settled.append((message, answer))
        if self._loop is not None:
            with suppress(RuntimeError):  # the event loop has ended
                self._loop.call_soon_threadsafe(self._wake.set)

    def publish(self, message: Message, subject: str, data: bytes, headers: Mapping[str, str]) -> None:
        """Publish a child of a message until it is confirmed. Raises what `check_child` raises."""
        assert self._loop is not None
        check_child(subject, data, headers, max_payload=self._connection.max_payload)
        self._loop.call_soon_threadsafe(self._start_publishing, message, subject, data, dict(headers))

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - run() of the spout raises it
            self.error = self.error or error

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            while not self._is_done():
                try:
                    await self._turn()
                except REFUSED:
                    raise
                except NOT_ANSWERED as error:
                    self._warn(error)
                    await asyncio.sleep(min(RETRY_WAIT_S, self._ack_wait_s / 8 or RETRY_WAIT_S))
        finally:
            await self._close()

    def _is_done(self) -> bool:
        settled = self._ending.is_set() and not self._settled and not self._publishing
        self.error = self.error or self._connection.error
        return settled or self.error is not None or self._given_up.is_set()

    async def _turn(self) -> None:
        """Connect where that is needed, read the configuration, keep messages and settle them."""
        if self._connection.is_closed:
            self._pull, self._configured_s = None, 0.0
            await self._connection.open(is_done=self._is_done)
        if time.monotonic() - self._configured_s >= CONFIG_INTERVAL_S:
            await self._configure()
        await self._renew()
        await self._settle()
        if not self._settled:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wake.wait(), min(CHECK_INTERVAL_S, self._ack_wait_s / 8))
        self._wake.clear()

    async def _configure(self) -> None:
        """Read the consumer's configuration; fetching begins with the first. Raises `NotFoundError` without one."""
        context = self._connection.jetstream()
        try:
            info = await context.consumer_info(self._stream, self._name)
        except (NotFoundError, BadRequestError) as error:
            self.error = error
            return
        self._ack_wait_s = ack_wait_s(info)
        self._configured_s = time.monotonic()
        if self._pull is None:
            self._pull = await context.pull_subscribe_bind(consumer=self._name, stream=self._stream)

    async def _fetch(self, max_messages: int) -> list[Message]:
        began_s = time.monotonic()
        try:
            self._connection.client()  # what is asked for while there is none would be asked for at once later
            found = await self._pull.fetch(max_messages, timeout=FETCH_S)
        except APIError as error:  # it says that the consumer is gone, or why it does not answer now
            self._warn(error)
            self._configured_s = 0.0
            found = []
        except NOT_ANSWERED:  # also where there is no message
            found = []
        if not found:
            await asyncio.sleep(max(0.0, FETCH_S / 2 + began_s - time.monotonic()))
        messages = [self._read(each) for each in found]
        for message in messages:
            self._in_flight[message.id] = _InFlight(message=message, renewed_s=began_s)
        return messages

    def _read(self, received: Msg) -> Message:
        metadata = received.metadata
        return Message(
            id=str(metadata.sequence.stream),
            subject=received.subject,
            data=received.data,
            headers=received.headers or {},
            attempt=metadata.num_delivered,
            reply=received.reply,
            publisher=self.publish,
        )

    async def _settle(self) -> None:
        """Settle messages, each until NATS confirms it."""
        due = [self._settled.popleft() for _ in range(min(len(self._settled), MAX_EMIT))]
        answers = await asyncio.gather(*(self._settle_one(*one) for one in due), return_exceptions=True)
        failed = [(one, error) for one, error in zip(due, answers, strict=True) if error is not None]
        self._settled.extendleft(one for one, _ in failed)
        for _, error in failed:
            raise error

    async def _settle_one(self, message: Message, answer: bytes) -> None:
        if answer == ACK or self._has(message):
            try:
                await self._tell(message, answer)
            except NatsTimeoutError:
                if not answer.startswith(NAK):
                    raise
                # once more could mean the next delivery of the message; without it NATS waits for the ack_wait
                _log.warning("NATS does not confirm that it delivers message %s again", message.id)
        else:
            _log.warning("message %s is delivered again already: its failed tree settles nothing", message.id)
        if (known := self._in_flight.get(message.id)) is not None and known.message is message:
            del self._in_flight[message.id]

    def _has(self, message: Message) -> bool:
        """Whether this is the last delivery of a message: a newer one is known here, or follows where NATS waits."""
        known = self._in_flight.get(message.id)
        if known is None or known.message is not message:
            return False
        return time.monotonic() - known.renewed_s < self._ack_wait_s

    async def _renew(self) -> None:
        """Let NATS wait again for those messages for which half of the time is over."""
        now_s = time.monotonic()
        for one in [one for one in self._in_flight.values() if now_s - one.renewed_s >= self._ack_wait_s]:
            _log.warning("message %s is delivered again while its tree is open, since NATS was away", one.message.id)
            del self._in_flight[one.message.id]
        due = [one for one in self._in_flight.values() if now_s - one.renewed_s >= self._ack_wait_s / 2]
        for at in range(0, len(due), MAX_EMIT):
            await asyncio.gather(*(self._renew_one(one) for one in due[at : at + MAX_EMIT]))

    async def _renew_one(self, one: _InFlight) -> None:
        now_s = time.monotonic()
        await self._tell(one.message, IN_PROGRESS)
        one.renewed_s = now_s

    async def _tell(self, message: Message, answer: bytes) -> None:
        """Send an answer to a delivery, and wait until NATS confirms it."""
        await self._connection.client().request(message.reply, answer, timeout=min(REQUEST_S, self._ack_wait_s / 4))

    def _start_publishing(self, message: Message, subject: str, data: bytes, headers: dict[str, str]) -> None:
        task = asyncio.ensure_future(self._publish(message, subject, data, headers))
        self._publishing.add(task)
        task.add_done_callback(self._end_publishing)

    def _end_publishing(self, task: asyncio.Task[None]) -> None:
        self._publishing.discard(task)
        if not task.cancelled():
            self.error = self.error or task.exception()

    async def _publish(self, message: Message, subject: str, data: bytes, headers: dict[str, str]) -> None:
        """Publish a child until a stream confirms it, its message is settled, or the spout ends.

        Raises what no attempt can change: a server that was started again takes less, say.
        """
        while True:
            check_child(subject, data, headers, max_payload=self._connection.max_payload)
            try:
                await self._connection.jetstream().publish(subject, data, headers=headers)
            except REFUSED:
                raise
            except NOT_ANSWERED as error:
                _log.warning("no stream confirms a message of subject %s: %r", subject, error)
            else:
                return
            if self._ending.is_set() or message.id not in self._in_flight:
                return
            await asyncio.sleep(RETRY_WAIT_S)

    def _warn(self, error: Exception) -> None:
        """Log that NATS is asked again."""
        advice = ": was it started with --jetstream?" if isinstance(error, ServiceUnavailableError) else ""
        _log.warning("NATS does not answer for consumer %s: %r%s", self._name, error, advice)

    async def _close(self) -> None:
        for task in [*self._publishing]:
            task.cancel()
        await self._connection.close()
