"""Reads a queue of SQS as a spout."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from acker_client.errors import UsageError
from acker_client.sources._queue_spout import QueueSpout
from acker_client.sources._runner import Settlements
from acker_client.sources.sqs.queue import MAX_VISIBILITY_S, Message, Queue, check_timeouts

if TYPE_CHECKING:
    from acker_client.completions import Completion
    from acker_client.root import Root
    from acker_client.sync.client import Acker

Send = Callable[["Root", Message], Any]
"""Anchors the children of a root and sends them, to SQS with `message_attributes`, or any way."""

Settlement = Literal["retry", "delete"]


class SkipMessage(Exception):
    """Raised by ``send`` to skip a message at once: nothing is emitted for it, and it is deleted."""


class SqsSpout(QueueSpout[Message]):
    """Emits a root for every message of a queue, and deletes the message when its tree is processed.

    ``spout`` is the name of the spout, ``client`` an SQS client of boto3. At most ``max_pending`` messages have open
    trees, and never more than the topology's ``max_spout_pending``. Such a message is invisible for
    ``visibility_timeout`` seconds, and again before these are over, as long as its tree is open, for twelve hours at
    most; a spout that dies leaves it to the next one after that time. A root that failed or timed out is settled as
    ``on_failed`` says: "retry" (SQS delivers the message again after ``retry_delay`` seconds, or moves it to the
    queue's dead letters), "delete", or a function of its completion and the message that gives one of the two.
    `SkipMessage` raised by ``send`` deletes a message at once; any other exception ends ``run``. ``message_id`` gives
    the message id of a root. ``on_completed`` is called with each completion and its message, in the thread that reads
    completions, as is ``on_failed``.

    Messages that the acker does not accept stay invisible and are emitted again. ``run`` raises what boto3 raises for a
    request that SQS refuses (there is no such queue, say). Raises `UsageError` for settings out of their range, and for
    a client whose requests may take half of ``visibility_timeout``.
    """

    def __init__(
        self,
        acker: "Acker",
        *,
        spout: str,
        client: Any,
        queue_url: str,
        send: Send,
        max_pending: int = 100,
        visibility_timeout: int = 60,
        on_failed: "Settlement | Callable[[Completion, Message], Settlement]" = "retry",
        retry_delay: int = 1,
        message_id: Callable[[Message], str] = lambda message: message.id,
        on_completed: "Callable[[Completion, Message], Any] | None" = None,
    ) -> None:
        seconds = range(MAX_VISIBILITY_S + 1)
        if max_pending < 1 or visibility_timeout not in seconds[2:] or retry_delay not in seconds:
            raise UsageError(
                f"max_pending must be at least 1, visibility_timeout from 2 to {MAX_VISIBILITY_S} seconds, retry_delay "
                f"from 0 to {MAX_VISIBILITY_S}; not {max_pending}, {visibility_timeout}, {retry_delay}"
            )
        check_timeouts(client, visibility_s=visibility_timeout)
        super().__init__(
            acker,
            spout=spout,
            queue=Queue(client, queue_url, visibility_s=visibility_timeout),
            send=send,
            skip=SkipMessage,
            max_pending=max_pending,
            settlements=Settlements(on_failed, "retry", "delete"),
            retry_delay=retry_delay,
            message_id=message_id,
            on_completed=on_completed,
        )
