"""Reads completions as Redis publishes them, and from the mailbox what pub/sub has lost."""

import logging
from typing import TYPE_CHECKING, Any

from acker_protocol.errors import UnknownSpout, UnknownTopology

from acker_client._core import requests, responses
from acker_client._core.effects import Flow, Sleep
from acker_client._core.mailbox import MailboxReader, ReadOptions
from acker_client.completions import parse_message
from acker_client.errors import UsageError

if TYPE_CHECKING:
    from acker_client._core.retry import RetrySession
    from acker_client._core.spout_task import SpoutTask
    from acker_client._core.subscription import Subscription
    from acker_client.completions import Completion

MAILBOX_INTERVAL_S = 30.0
"""Seconds after which the mailbox, read to its end, is read again."""

LISTEN_S = 1.0
"""How soon a reader that listens notices that it is to stop."""

MAX_UNRELEASED = 10_000
"""After so many published completions the mailbox is read early: only reading it releases them."""

DEDUPE_SIZE = 100_000
"""So many ids are remembered; a completion that comes again later than that is given twice."""

_log = logging.getLogger("acker_client")


class PubSubReader:
    """One reader of a spout task that subscribes: while it is open ``read``, handle all that was read, ``release``.

    It subscribes, reads the mailbox to its end, and then takes published completions; after every loss of the
    subscription, and every 30 seconds, it does so again. Only what was read from the mailbox is released: the cursor
    of a published completion would also release those that were lost before it.
    """

    def __init__(
        self, session: "RetrySession", *, task: "SpoutTask", subscription: "Subscription", options: ReadOptions
    ) -> None:
        self._session = session
        self._task = task
        self._subscription = subscription
        self._clock = session.config.clock
        self._mailbox = MailboxReader(session, task=task, options=options)
        self._delays = session.config.backoff_delays()
        self._mailbox_due_s = float("-inf")
        self._reading_mailbox = False
        self._seen: dict[str, None] = {}
        self._published: tuple[Completion, ...] | None = None
        self._given: tuple[Completion, ...] = ()
        self._unreleased = 0

    @property
    def is_open(self) -> bool:
        """Whether to go on reading."""
        return self._mailbox.is_open

    def read(self) -> "Flow[tuple[Completion, ...]]":
        """Read a page of the mailbox, or what was published; give what of it is new."""
        if not self._reading_mailbox and self._until_mailbox_s() <= 0:
            yield from self._start_mailbox()
        found = yield from self._read_mailbox() if self._reading_mailbox else self._listen()
        self._given = tuple(completion for completion in found if self._is_new(completion))
        return self._given

    def release(self) -> Flow[None]:
        """Release what was read last: a page as a whole; a published completion when the mailbox gives it."""
        if self._published is None:
            yield from self._mailbox.release(self._given)
            return
        self._task.tell_handled(self._given)
        for completion in self._published:
            self._task.pending.drop(completion.root_id)

    def close(self) -> Flow[None]:
        """End the subscription."""
        yield from self._subscription.close()

    def _start_mailbox(self) -> Flow[None]:
        """Subscribe, then read the mailbox: what ends after the confirmation is published, the rest is in there."""
        yield from self._subscription.confirm()
        yield from self._enable_pubsub()
        self._mailbox.rewind()
        self._reading_mailbox = True
        self._unreleased = 0

    def _read_mailbox(self) -> "Flow[tuple[Completion, ...]]":
        """Read the next page; after the last one listen. Without a subscription the mailbox is read again soon."""
        self._published = None
        found = yield from self._mailbox.poll()
        if self._mailbox.at_end:
            self._reading_mailbox = False
            wait_s = MAILBOX_INTERVAL_S if self._subscription.is_subscribed else next(self._delays)
            self._mailbox_due_s = self._clock.monotonic() + wait_s
        return found

    def _listen(self) -> "Flow[tuple[Completion, ...]]":
        self._published = ()
        seconds = max(0.0, min(LISTEN_S, self._until_mailbox_s(), self._mailbox.left_s))
        if not self._subscription.is_subscribed:
            yield Sleep(seconds=seconds)
            return self._published
        message = yield from self._subscription.next_message(seconds)
        if self._subscription.is_subscribed:
            self._delays = self._session.config.backoff_delays()
        else:
            self._mailbox_due_s = self._clock.monotonic() + next(self._delays)
        self._published = () if message is None else self._parse(message)
        self._unreleased += len(self._published)
        return self._published

    def _parse(self, message: bytes) -> "tuple[Completion, ...]":
        """Read a message. One that cannot be read was not sent by the acker, or the mailbox has its completions."""
        try:
            return parse_message(message)
        except ValueError as error:
            _log.warning("a message on the channel of %s is ignored: %s", self._task.name, error)
            return ()

    def _enable_pubsub(self) -> Flow[None]:
        """Have completions published, if they are not: nobody may have asked for it yet, or the store has lost it."""
        try:
            callback = yield from self._read_callback()
        except UnknownTopology:
            return  # reading the mailbox raises it, or goes on without
        if callback is None:
            pubsub = {"kind": "pubsub"}
            yield from self._session.send(requests.set_callback(self._session.topology, self._task.name, pubsub))
        elif callback.get("kind") != "pubsub":
            kind = callback.get("kind")
            raise UsageError(f"the completions of {self._task.name} go to a {kind}, which alone may release them")

    def _read_callback(self) -> Flow[dict[str, Any] | None]:
        """Read where the completions go; a spout task that the service does not know is registered first."""
        try:
            yield from self._task.register()
            response = yield from self._session.send(requests.read_spout(self._session.topology, self._task.name))
        except UnknownSpout:
            self._task.registered = not self._task.own
            yield from self._task.register()
            return None
        return responses.document(response).get("callback")

    def _is_new(self, completion: "Completion") -> bool:
        if completion.id in self._seen:
            return False
        self._seen[completion.id] = None
        if len(self._seen) > DEDUPE_SIZE:
            del self._seen[next(iter(self._seen))]
        return True

    def _until_mailbox_s(self) -> float:
        """How long until the mailbox is read: when its time has come, or that of a root to be asked about."""
        if self._unreleased >= MAX_UNRELEASED or self._task.pending.has_ended:
            return 0.0
        return min(self._mailbox_due_s, self._task.pending.next_s()) - self._clock.monotonic()
