"""Knows what each verb of an acker does, as a flow for a driver."""

from functools import partial
from typing import TYPE_CHECKING, Literal

from acker_protocol.operations import OperationState

from acker_client.batching import Batch, open_batch
from acker_client.lingering import Lingering
from acker_client.placing import place, refuse_any, refuse_unplaced
from acker_client.steps import Work
from acker_client.tuples import taken
from acker_client.verdicts import Reject, Retry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from acker_protocol.operations import Operation

    from acker_client.exchange import Exchange
    from acker_client.steps import Flow
    from acker_client.tuples import Tuple

    OnReject = Callable[[Tuple, Reject], Any]

Words = list[OperationState]
"""The answers to the operations of a verb, in their order; none where they are gathered and go out later."""

OnError = Literal["fail", "redeliver"]
"""What an execute block does on an exception: fail the tree at once, or leave it to the queue's redelivery."""


class Flows:
    """The verbs towards one topology. Where a batch is open they hand their operations to it; else acks linger."""

    def __init__(self, exchange: "Exchange", *, on_reject: "OnReject") -> None:
        self.exchange = exchange
        self.lingering = Lingering(exchange)
        self.rejected = 0
        self._on_reject = on_reject

    def ack(self, tuple_: "Tuple") -> "Flow[Words]":
        """End a tuple well."""
        self.lingering.outbox.tell()
        return (yield from self._ack(taken(tuple_)))

    def fail(self, tuple_: "Tuple", *, reason: str | None) -> "Flow[Words]":
        """Fail every root of a tuple."""
        self.lingering.outbox.tell()
        return (yield from self.apply(taken(tuple_).take_fails(reason)))

    def reset_timeout(self, tuple_: "Tuple") -> "Flow[Words]":
        """Give every root of a tuple its timeout again: now, since in a batch it could come too late."""
        messages = taken(tuple_).take_resets()
        yield from self.lingering.overtake(messages)
        return (yield from self._send(messages))

    def executed(self, tuple_: "Tuple") -> "Flow[Words]":
        """End a tuple whose block was left without an exception, unless the block has done so itself."""
        return (yield from self._ack(tuple_)) if not tuple_.done else []

    def interrupted(self, tuple_: "Tuple", error: BaseException, on_error: OnError) -> "Flow[bool]":
        """Go by the exception that ended a tuple's block; True where it was a verdict and goes no further.

        Fails the tuple, but not if the block has ended it or leaves it to be redelivered, nor for what is no
        `Exception` (KeyboardInterrupt, CancelledError): that stops the program, it says nothing of the tuple.
        """
        verdict = isinstance(error, Reject | Retry)
        if isinstance(error, Reject):
            yield from self._reject(tuple_, error)
        elif isinstance(error, Exception) and not tuple_.done and (verdict or on_error == "fail"):
            yield from self.apply(tuple_.take_fails(str(error) or type(error).__name__))
        return verdict

    def apply(self, messages: "Sequence[Operation]") -> "Flow[Words]":
        """Apply inits or fails, behind what is on its way for their roots."""
        batch = open_batch(self)
        if batch is not None:
            batch.gathered.add(messages)
            return []
        yield from self.lingering.overtake(messages)
        return (yield from self._send(messages))

    def flush(self) -> "Flow[None]":
        """Send what lingers, and tell what could not be delivered."""
        yield from self.lingering.flush()
        self.lingering.outbox.tell()

    def deliver(self, batch: Batch) -> "Flow[None]":
        """Send what a batch has gathered. Raises `Refused` for the operations that were not accepted."""
        if batch:
            batch.answers = yield from place(self.exchange, batch.gathered.messages())
            refuse_any(batch.answers)

    def _ack(self, tuple_: "Tuple") -> "Flow[Words]":
        """Take the acks only when nothing can go wrong any more before they are on their way."""
        batch = open_batch(self)
        take = (yield from self.lingering.way_in()) if tuple_.tracked else None
        if batch is not None and take is not None:
            take(batch.gathered, tuple_.take_acks())
        elif take is not None and self.lingering.on:
            yield from self.lingering.make_room()
            yield from self.lingering.gather(take, tuple_.take_acks())
        else:
            return (yield from self._send(tuple_.take_acks()))
        return []

    def _reject(self, tuple_: "Tuple", reject: Reject) -> "Flow[None]":
        self.rejected += 1
        yield Work(do=partial(self._on_reject, tuple_, reject))
        yield from self.executed(tuple_)

    def _send(self, messages: "Sequence[Operation]") -> "Flow[Words]":
        if not messages:
            return []
        answers = yield from place(self.exchange, messages)
        for answer in answers:
            refuse_unplaced(answer)
        return [answer.word for answer in answers]
