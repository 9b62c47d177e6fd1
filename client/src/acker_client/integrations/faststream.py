"""Makes every subscriber of a FastStream application a bolt, and every message that it publishes a child. ::

    broker = RabbitBroker(url, middlewares=[AckerMiddleware(acker)])

    async with spout.emit(message_id="42"):
        await broker.publish(order, "orders")  # and whatever its subscribers publish

The anchors travel in the message's headers, so that the other side need not be FastStream. Needs
``acker-client[faststream]``.
"""

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

from acker_protocol.routes import ANCHORS
from faststream import AckPolicy, BaseMiddleware
from faststream.exceptions import AckMessage, HandlerException, NackMessage
from faststream.message import AckStatus, StreamMessage
from faststream.response import PublishType

from acker_client import propagate
from acker_client._core import validate
from acker_client._core.names import valid_name
from acker_client.errors import OperationsLost, RetriesExhausted, UsageError
from acker_client.integrations._dedupe_window import check_dedupe_window
from acker_client.integrations._task_runs import KEY, digest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from types import TracebackType

    from faststream.response import PublishCommand

    from acker_client.asyncio.client import AsyncAcker
    from acker_client.tuple import AsyncTuple

__all__ = ["AckerMiddleware"]

REDELIVERS = frozenset({AckPolicy.NACK_ON_ERROR, AckPolicy.MANUAL})
"""Policies by which the broker delivers a message again after an exception."""


AT_MOST_ONCE = 0
"""The QoS of MQTT with which a broker delivers a message once."""

_log = logging.getLogger("acker_client")


class AckerMiddleware:
    """Receives the anchors of each message as a tuple, and anchors what is published to what is current.

    The tuple is acked when the subscriber has returned and its responses are published. After an exception it is left
    open where the broker delivers the message again (``AckPolicy.NACK_ON_ERROR``, ``NackMessage``), else failed. With
    ``AckPolicy.MANUAL`` it ends as the subscriber ended the message: acked, rejected (failed), or left open. Where the
    broker forgets what it delivers (a list or a channel of Redis, a subject of NATS without a stream, QoS 0 of MQTT) an
    exception fails it. So it does on a stream of Redis, unless the subscriber claims what its group left unacked, or
    ``claimed`` says that another subscriber does.

    A message that is delivered again has the same edge, and so have the messages that its subscriber publishes: each is
    known by its destination, its content and the number of equal ones before it. Where the content differs between runs
    give a key: ``broker.publish(report, "reports", headers={"acker_key": "daily"})``.

    With ``flush_before_ack`` each ack is delivered before the broker forgets the message, and the topology needs a
    dedupe window; else publishing raises `UsageError`. ``strict`` refuses to publish where neither a tuple nor a root
    is current. ``component`` names the bolt; None: the name that FastStream gives the
    subscriber, that of its function. ``skip_ended`` acks a message whose roots have all ended without its subscriber,
    and counts it in ``acker.stats().skipped``; a batch, once all its messages are such.

    Not tracked: the answer to a request (``reply_to``), which the one who asked waits for. `UsageError` for several
    messages published in one batch: they share their headers, and so would share one edge.
    """

    def __init__(
        self,
        acker: "AsyncAcker",
        *,
        component: str | None = None,
        flush_before_ack: bool = True,
        strict: bool = False,
        claimed: bool = False,
        skip_ended: bool = False,
    ) -> None:
        self.acker = acker
        self.flush_before_ack = flush_before_ack
        self.strict = strict
        self.claimed = claimed
        self.skip_ended = skip_ended
        self._component = None if component is None else validate.name("component", component)
        self._fits = False

    def __call__(self, msg: Any | None, /, *, context: Any) -> "BaseMiddleware[Any, Any]":
        """Return the middleware of one message that is received or published."""
        return _MessageMiddleware(msg, context=context, shared=self)

    def receive(self, headers: "Mapping[str, Any]", subscriber: Any) -> "AsyncTuple":
        """Return the tuple of a message that has anchors."""
        name = self._component or str(subscriber.specification.call_name)
        tup = self.acker.receive(headers, component=valid_name(name))
        tup.derive_as(name)
        return tup

    async def check_topology(self) -> None:
        """Raise `UsageError` for a topology without a dedupe window, once."""
        if not self._fits:
            topology = await self.acker.topologies.get(self.acker.topology)
            check_dedupe_window(topology, redelivery_s=0, flush_before_ack=self.flush_before_ack)
            self._fits = True


class _MessageMiddleware(BaseMiddleware[Any, Any]):
    """One message that is received or published; a subscriber of batches has several tuples at once."""

    def __init__(self, msg: Any, /, *, context: Any, shared: AckerMiddleware) -> None:
        super().__init__(msg, context=context)
        self._shared = shared
        self._tuples: list[AsyncTuple] = []
        self._message: StreamMessage[Any] | None = None
        self._can_be_acked = True

    async def consume_scope(self, call_next: "Callable[[Any], Awaitable[Any]]", msg: "StreamMessage[Any]") -> Any:
        """Make the message's tuple current; it stays so until its responses are published."""
        self._message = msg
        self._can_be_acked = _can_be_acked(msg)
        all_headers = msg.batch_headers or [msg.headers]
        for headers in all_headers:
            if propagate.extract(headers) is not None:
                self._tuples.append(self._shared.receive(headers, self.context.get_local("handler_")))
        if self._shared.skip_ended and len(self._tuples) == len(all_headers):
            await self._skip_if_ended(msg)
        propagate.enter(_Parent(self._shared.acker, self._tuples) if self._tuples else None)
        return await call_next(msg)

    async def after_processed(
        self,
        exc_type: type[BaseException] | None = None,  # noqa: ARG002 - FastStream calls it so
        exc_val: BaseException | None = None,
        exc_tb: "TracebackType | None" = None,  # noqa: ARG002
    ) -> bool | None:
        """End the tuples before the broker's message is acked, rejected or given back."""
        if self._message is not None:
            propagate.leave(None)
        if self._tuples:
            await self._end(exc_val)
        return False

    async def publish_scope(self, call_next: "Callable[[Any], Awaitable[Any]]", cmd: "PublishCommand") -> Any:
        """Anchor a message that is published."""
        key = cmd.headers.get(KEY)
        cmd.headers = {name: value for name, value in cmd.headers.items() if name != KEY}
        parent = propagate.current()
        if cmd.publish_type is PublishType.REPLY or ANCHORS in cmd.headers:
            return await call_next(cmd)
        if parent is None:
            if self._shared.strict:
                raise UsageError(
                    f"a message to {cmd.destination!r} is published where neither a tuple nor a root is current "
                    "(strict=True)"
                )
            return await call_next(cmd)
        if len(cmd.batch_bodies) > 1:
            raise UsageError(
                f"{len(cmd.batch_bodies)} messages to {cmd.destination!r} in one batch would share one edge: publish "
                "them one by one"
            )
        await self._shared.check_topology()
        if isinstance(parent, _Parent):
            key = parent.key(cmd, key)
        cmd.add_headers(parent.headers(key))
        return await call_next(cmd)

    async def _skip_if_ended(self, msg: "StreamMessage[Any]") -> None:
        """Raise `AckMessage` for a message all of whose roots have ended; nobody else acks it with MANUAL."""
        if any(await asyncio.gather(*(tup.is_wanted() for tup in self._tuples))):
            return
        for tup in self._tuples:
            tup.skip()
        if self.context.get_local("handler_").ack_policy is AckPolicy.MANUAL:
            await msg.ack()
        raise AckMessage

    async def _end(self, error: BaseException | None) -> None:
        outcome = self._outcome(error)
        if outcome is None and not self._comes_again(error):
            outcome = AckStatus.REJECTED
        if outcome is None:
            return
        is_acked = outcome is AckStatus.ACKED
        try:
            for tup in self._tuples:
                if not tup.closed:
                    await _end_tuple(tup, acked=is_acked, error=error)
            if self._shared.flush_before_ack:
                await self._shared.acker.flush()
        except OperationsLost as lost:
            raise NackMessage from lost  # delivered again, it is acked again
        except RetriesExhausted as lost:  # where acks do not linger
            if is_acked:
                raise NackMessage from lost
            raise

    def _outcome(self, error: BaseException | None) -> "AckStatus | None":
        """Return what becomes of the tuples: ACKED, REJECTED (they fail); None: they stay open for a redelivery."""
        if error is not None and not isinstance(error, Exception):
            return None
        if not self._can_be_acked:
            return AckStatus.ACKED if error is None or isinstance(error, AckMessage) else AckStatus.REJECTED
        if isinstance(error, HandlerException):
            if isinstance(error, AckMessage):
                return AckStatus.ACKED
            return None if isinstance(error, NackMessage) else AckStatus.REJECTED
        policy = self.context.get_local("handler_").ack_policy
        committed = cast("StreamMessage[Any]", self._message).committed
        if policy is AckPolicy.MANUAL:
            return None if committed is AckStatus.NACKED else committed
        if error is None:
            return AckStatus.ACKED
        return None if policy in REDELIVERS and committed is None else AckStatus.REJECTED

    def _comes_again(self, error: BaseException | None) -> bool:
        """Whether a message that is left open can be acked later: the broker delivers it again, or it has not ended."""
        message = cast("StreamMessage[Any]", self._message)
        if not isinstance(error, Exception) and message.committed is not AckStatus.NACKED:
            return True
        stream = getattr(self.context.get_local("handler_"), "stream_sub", None)
        if stream is not None:
            return _is_claimed(stream, elsewhere=self._shared.claimed)
        return bool(getattr(message.raw_message, "qos", None) != AT_MOST_ONCE)


class _Parent:
    """The tuples of a message as the parent of what is published; a child of several is an edge in each tree."""

    def __init__(self, acker: "AsyncAcker", tuples: "list[AsyncTuple]") -> None:
        self._acker = acker
        self._tuples = tuples
        self._published: Counter[str] = Counter()

    def anchor(self, key: str | None = None) -> Any:
        """Anchor a child to all tuples."""
        return self._acker.anchor(*self._tuples, key=key)

    def headers(self, key: str | None = None) -> dict[str, str]:
        """Anchor a child to all tuples, and give its header."""
        return cast("dict[str, str]", self.anchor(key).headers())

    def key(self, cmd: "PublishCommand", key: str | None) -> str:
        """Return the key of a child: the same in a run that publishes in another order."""
        kind = (
            f"key:{key}"
            if key is not None
            else f"{cmd.destination}:{digest([cmd.body], cast('Mapping[str, Any]', {}))}"
        )
        self._published[kind] += 1
        return f"{kind}#{self._published[kind]}"


def _can_be_acked(message: "StreamMessage[Any]") -> bool:
    """Whether the broker knows acks: a list and a channel of Redis, and a subject of NATS, forget what they deliver.

    FastStream marks a message of such a subject as acked before it is processed.
    """
    return type(message).ack is not StreamMessage.ack and not getattr(message.raw_message, "_ackd", False)


def _is_claimed(stream: Any, *, elsewhere: bool) -> bool:
    """Whether a subscriber claims what a group of a stream of Redis was given and has not acked."""
    if not stream.group or stream.no_ack:
        return False
    claims = (stream.min_idle_time, getattr(stream, "claim_min_idle_time", None))
    return elsewhere or any(idle_ms is not None for idle_ms in claims)


async def _end_tuple(tup: "AsyncTuple", *, acked: bool, error: BaseException | None) -> None:
    """Ack or fail a tuple; again if that did nothing but raise what earlier acks came to, of other messages."""
    try:
        await _ack_or_fail(tup, acked=acked, error=error)
    except OperationsLost:
        if tup.closed:
            raise
        _log.exception("acks were lost: their roots time out")
        await _ack_or_fail(tup, acked=acked, error=error)


async def _ack_or_fail(tup: "AsyncTuple", *, acked: bool, error: BaseException | None) -> None:
    if acked:
        await tup.ack()
    else:
        await tup.fail(str(error or "") or type(error).__name__ if error is not None else "rejected")
