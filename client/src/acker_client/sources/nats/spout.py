"""Reads a consumer of NATS JetStream as a spout."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from acker_client.errors import UsageError
from acker_client.sources._queue_spout import QueueSpout
from acker_client.sources._runner import Settlements
from acker_client.sources.nats.consumer import Consumer
from acker_client.sources.nats.messages import Message

if TYPE_CHECKING:
    from acker_client.completions import Completion
    from acker_client.root import Root
    from acker_client.sync.client import Acker

Send = Callable[["Root", Message], Any]
"""Anchors the children of a root and sends them: ``message.publish(subject, data, root.anchor(key))``, or any way."""

Settlement = Literal["retry", "drop"]


class SkipMessage(Exception):
    """Raised by ``send`` to skip a message at once: nothing is emitted for it, and NATS delivers it no more."""


class NatsSpout(QueueSpout[Message]):
    """Emits a root for every message of a JetStream pull consumer, and acks the message when its tree is processed.

    ``spout`` is the name of the spout, ``url`` the address of NATS, or several of one cluster; ``connect`` has further
    arguments of ``nats.connect``. The ``stream`` and its ``consumer`` exist already; the consumer's ack policy is
    explicit. At most ``max_pending`` messages have open trees, and never more than the topology's
    ``max_spout_pending``. NATS is told to wait before the consumer's ``ack_wait``, or the shortest step of its
    ``backoff``, is over, as long as a tree is open; a spout that dies leaves its messages to another one after that
    time. A root that failed or timed out is settled as ``on_failed`` says: "retry" (NATS delivers the message again
    after ``retry_delay`` seconds, as often as the consumer's ``max_deliver`` says), "drop" (it terminates the message),
    or a function of its completion and the message that gives one of the two. `SkipMessage` raised by ``send``
    terminates a message at once; any other exception ends ``run``. ``message_id`` gives the message id of a root.
    ``on_completed`` is called with each completion and its message, in the thread that reads completions, as is
    ``on_failed``.

    Messages that the acker does not accept are kept and emitted again. ``run`` raises what nats-py raises for what
    NATS refuses (there is no such consumer, say), and `UsageError` for a consumer that cannot be read so. Raises
    `UsageError` for settings out of their range.
    """

    def __init__(
        self,
        acker: "Acker",
        *,
        spout: str,
        url: str | list[str],
        stream: str,
        consumer: str,
        send: Send,
        max_pending: int = 100,
        on_failed: "Settlement | Callable[[Completion, Message], Settlement]" = "retry",
        retry_delay: float = 1.0,
        message_id: Callable[[Message], str] = lambda message: message.id,
        on_completed: "Callable[[Completion, Message], Any] | None" = None,
        connect: Mapping[str, Any] | None = None,
    ) -> None:
        if max_pending < 1 or not 0 <= retry_delay < float("inf"):
            raise UsageError(
                f"max_pending must be at least 1, and retry_delay not negative; not {max_pending}, {retry_delay}"
            )
        super().__init__(
            acker,
            spout=spout,
            queue=Consumer(url, stream=stream, name=consumer, options=connect or {}),
            send=send,
            skip=SkipMessage,
            max_pending=max_pending,
            settlements=Settlements(on_failed, "retry", "drop"),
            retry_delay=retry_delay,
            message_id=message_id,
            on_completed=on_completed,
        )
