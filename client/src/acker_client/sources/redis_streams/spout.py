"""Reads a stream of Redis as a spout."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from acker_client.errors import UsageError
from acker_client.sources._queue_spout import QueueSpout
from acker_client.sources._runner import Settlements
from acker_client.sources.redis_streams.stream import Message, Stream

if TYPE_CHECKING:
    from acker_client.completions import Completion
    from acker_client.root import Root
    from acker_client.sync.client import Acker

Send = Callable[["Root", Message], Any]
"""Anchors the children of a root and sends them, to a stream with the header as a field, or any way."""

Settlement = Literal["retry", "drop"]

MIN_IDLE_S = 2.0


class SkipMessage(Exception):
    """Raised by ``send`` to skip a message at once: nothing is emitted for it, and it is acked."""


class RedisStreamSpout(QueueSpout[Message]):
    """Emits a root for every message of a consumer group of a stream, and acks the message when its tree is processed.

    ``spout`` is the name of the spout, ``url`` the address of a Redis or Valkey: a server, sentinels or a cluster, in
    the forms of ``ACKER_REDIS_URL``. The group exists already. ``consumer`` is the spout's name in it, by default a new
    one. At most ``max_pending`` messages have open trees, and never more than the topology's ``max_spout_pending``.
    They are renewed before they have been idle for ``idle_timeout`` seconds, as long as their trees are open; what has
    been idle for so long, since its spout died, is claimed by any spout of the group. A root that failed or timed out
    is settled as ``on_failed`` says: "retry" (it is claimed again after ``retry_delay`` seconds), "drop" (it is acked),
    or a function of its completion and the message that gives one of the two. `SkipMessage` raised by ``send`` acks a
    message at once; any other exception ends ``run``. ``message_id`` gives the message id of a root. ``on_completed``
    is called with each completion and its message, in the thread that reads completions, as is ``on_failed``.

    Messages that the acker does not accept are kept and emitted again. ``run`` raises what redis-py raises for a
    command that Redis refuses (there is no such group, say). Raises `UsageError` for settings out of their range.
    """

    def __init__(
        self,
        acker: "Acker",
        *,
        spout: str,
        url: str,
        stream: str,
        group: str,
        send: Send,
        consumer: str | None = None,
        max_pending: int = 100,
        idle_timeout: float = 60.0,
        on_failed: "Settlement | Callable[[Completion, Message], Settlement]" = "retry",
        retry_delay: float = 1.0,
        message_id: Callable[[Message], str] = lambda message: message.id,
        on_completed: "Callable[[Completion, Message], Any] | None" = None,
    ) -> None:
        if max_pending < 1 or not idle_timeout >= MIN_IDLE_S or not 0 <= retry_delay <= idle_timeout:
            raise UsageError(
                f"max_pending must be at least 1, idle_timeout at least {MIN_IDLE_S:g} seconds, retry_delay from 0 to "
                f"idle_timeout; not {max_pending}, {idle_timeout}, {retry_delay}"
            )
        super().__init__(
            acker,
            spout=spout,
            queue=Stream(url, stream, group=group, consumer=consumer, idle_s=idle_timeout),
            send=send,
            skip=SkipMessage,
            max_pending=max_pending,
            settlements=Settlements(on_failed, "retry", "drop"),
            retry_delay=retry_delay,
            message_id=message_id,
            on_completed=on_completed,
        )
