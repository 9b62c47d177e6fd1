"""Knows what each verb of an acker does, as a flow for a driver."""

from typing import TYPE_CHECKING, Literal

from acker_protocol.messages import Word

from acker_client.batching import Batch, open_batch
from acker_client.mailbox import Mailbox, Reading
from acker_client.placing import place, refuse_any, refuse_unplaced
from acker_client.roots import Emission, Root

if TYPE_CHECKING:
    from collections.abc import Sequence

    from acker_protocol.messages import Message

    from acker_client.exchange import Exchange, Flow
    from acker_client.tuples import Tuple

Words = list[Word]
"""The answers to the operations of a verb, in their order."""

OnError = Literal["fail", "redeliver"]
"""What an execute block does on an exception: fail the tree at once, or leave it to the queue's redelivery."""


class Flows:
    """The verbs towards one topology. Where a batch is open they hand their operations to it and answer no words."""

    def __init__(self, exchange: "Exchange") -> None:
        self._exchange = exchange

    def ack(self, tuple_: "Tuple") -> "Flow[Words]":
        """End a tuple well."""
        return self._apply(tuple_.take_acks())

    def fail(self, tuple_: "Tuple", *, reason: str | None) -> "Flow[Words]":
        """Fail every root of a tuple."""
        return self._apply(tuple_.take_fails(reason))

    def reset_timeout(self, tuple_: "Tuple") -> "Flow[Words]":
        """Give every root of a tuple its timeout again: now, since in a batch it could come too late."""
        return self._send(tuple_.take_resets())

    def executed(self, tuple_: "Tuple") -> "Flow[Words]":
        """End a tuple whose block was left without an exception, unless the block has done so itself."""
        return self._apply([] if tuple_.done else tuple_.take_acks())

    def interrupted(self, tuple_: "Tuple", error: BaseException, on_error: OnError) -> "Flow[Words]":
        """Fail a tuple whose block raised.

        Not if the block has ended it or leaves it to be redelivered, nor for what is no `Exception` (KeyboardInterrupt,
        CancelledError): that stops the program, it says nothing of the tuple.
        """
        if tuple_.done or on_error == "redeliver" or not isinstance(error, Exception):
            return self._apply([])
        return self.fail(tuple_, reason=str(error) or type(error).__name__)

    def begin(self, spout_task: str, emission: Emission) -> Root:
        """Take a new root into the hand. Raises `Misuse` for what no init may say."""
        return Root(topology=self._exchange.topology, spout_task=spout_task, emission=emission)

    def emitted(self, root: Root) -> "Flow[Words]":
        """Place a root whose block was left without an exception."""
        return self._apply(root.take_init())

    def flush(self, batch: Batch) -> "Flow[None]":
        """Send what a batch has gathered. Raises `Refused` for the operations that were not accepted."""
        if batch:
            batch.answers = yield from place(self._exchange, batch.messages())
            refuse_any(batch.answers)

    def mailbox(self, spout_task: str, reading: Reading) -> Mailbox:
        """Begin to read a spout task's completions."""
        return Mailbox(self._exchange, spout_task=spout_task, reading=reading)

    def _apply(self, messages: "Sequence[Message]") -> "Flow[Words]":
        batch = open_batch(self)
        if batch is None:
            return (yield from self._send(messages))
        batch.gather(messages)
        return []

    def _send(self, messages: "Sequence[Message]") -> "Flow[Words]":
        if not messages:
            return []
        answers = yield from place(self._exchange, messages)
        for answer in answers:
            refuse_unplaced(answer)
        return [answer.word for answer in answers]
