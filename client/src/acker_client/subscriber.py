"""Knows how completions are told as they are published, and none is missed: what pub/sub loses the mailbox tells."""

import logging
from typing import TYPE_CHECKING, Any, Unpack

from acker_protocol.errors import UnknownSpout, UnknownTopology

from acker_client import calls, replies
from acker_client.completions import read_message
from acker_client.errors import Misuse
from acker_client.mailbox import Mailbox, Pages
from acker_client.steps import Flow, Pause

if TYPE_CHECKING:
    from acker_client.completions import Done
    from acker_client.exchange import Exchange
    from acker_client.spout_tasks import SpoutTask
    from acker_client.subscription import Subscription

EVERY_S = 30.0
"""So long after the mailbox was read to its end it is read again."""

LISTEN_S = 1.0
"""How soon one who listens sees that it is to stop."""

MOST_LIVE = 10_000
"""After so many live ones the mailbox is read early: only that releases them."""

MOST_TOLD = 100_000
"""So many ids are remembered; a completion that comes as a double later than that is told twice."""

PAGE = 1_000

_log = logging.getLogger(__name__)


class Subscriber:
    """One reader of a spout task who listens: while it is ``open`` ``read``, hand out all that was read, ``release``.

    It subscribes, reads the mailbox to its end, and goes on live; after every loss of the subscription, and every 30
    seconds, it does so again. Only what was read from the mailbox is released: by a live message's cursor that would
    be released too which was lost before it.
    """

    def __init__(
        self,
        exchange: "Exchange",
        *,
        task: "SpoutTask",
        subscription: "Subscription",
        **pages: Unpack[Pages],
    ) -> None:
        self._exchange, self._task, self._subscription = exchange, task, subscription
        pages.setdefault("limit", PAGE)
        self._box = Mailbox(exchange, task=task, reading={**pages, "wait_ms": 0})
        self._waits = exchange.terms.waits()
        self._read_at_s = float("-inf")
        self._reading = False
        self._told: dict[str, None] = {}
        self._live: tuple[Done, ...] | None = None
        self._live_count = 0

    @property
    def open(self) -> bool:
        """Whether to go on."""
        return self._box.open

    def read(self) -> "Flow[tuple[Done, ...]]":
        """Take into the hand what was published, or a page of the mailbox; give what of it was not told before."""
        if not self._reading and self._left_s() <= 0:
            yield from self._begin()
        found = yield from self._page() if self._reading else self._listen()
        return tuple(done for done in found if self._is_news(done))

    def release(self) -> Flow[None]:
        """Release what is in the hand: a page as one, a live one when the mailbox tells of it."""
        if self._live is None:
            yield from self._box.release()
        for done in self._live or ():
            self._task.pending.drop(done.root_id)

    def close(self) -> Flow[None]:
        """End the subscription."""
        yield from self._subscription.close()

    def _begin(self) -> Flow[None]:
        """Begin to read the mailbox: what ends from the confirmation on comes live, what ended before is there."""
        yield from self._subscription.confirm()
        yield from self._be_published()
        self._box.rewind()
        self._reading, self._live_count = True, 0

    def _page(self) -> "Flow[tuple[Done, ...]]":
        """Take the next page; behind the last, what ends comes live. Without a subscription it is read again soon."""
        self._live = None
        found = yield from self._box.take()
        if self._box.at_end:
            self._reading = False
            self._read_at_s = self._now_s() + (EVERY_S if self._subscription.on else next(self._waits))
        return found

    def _listen(self) -> "Flow[tuple[Done, ...]]":
        self._live = ()
        seconds = max(0.0, min(LISTEN_S, self._left_s(), self._box.left_s))
        if not self._subscription.on:
            yield Pause(seconds=seconds)
            return self._live
        message = yield from self._subscription.hear(seconds)
        if self._subscription.on:
            self._waits = self._exchange.terms.waits()
        else:
            self._read_at_s = self._now_s() + next(self._waits)
        self._live = () if message is None else self._understood(message)
        self._live_count += len(self._live)
        return self._live

    def _understood(self, message: bytes) -> "tuple[Done, ...]":
        """Read a message; one that cannot be read is somebody else's, or the mailbox will tell."""
        try:
            return read_message(message)
        except ValueError as fault:
            _log.warning("a message on the channel of %s is passed over: %s", self._task.name, fault)
            return ()

    def _be_published(self) -> Flow[None]:
        """See to it that what ends is published: nobody may have asked for it yet, or the store has lost that."""
        try:
            callback = yield from self._callback()
        except UnknownTopology:
            return  # reading says what becomes of that
        if callback is None:
            yield from self._exchange.send(calls.publish(self._exchange.topology, self._task.name))
        elif callback.get("kind") != "pubsub":
            kind = callback.get("kind")
            raise Misuse(f"the completions of {self._task.name} go to a {kind}, which alone may release them")

    def _callback(self) -> Flow[dict[str, Any] | None]:
        """Ask where the completions go; a name that the service does not know is registered first."""
        try:
            yield from self._task.register()
            reply = yield from self._exchange.send(calls.read_spout(self._exchange.topology, self._task.name))
        except UnknownSpout:
            self._task.registered = not self._task.own
            yield from self._task.register()
            return None
        return replies.document(reply).get("callback")

    def _is_news(self, done: "Done") -> bool:
        if done.id in self._told:
            return False
        self._told[done.id] = None
        if len(self._told) > MOST_TOLD:
            del self._told[next(iter(self._told))]
        return True

    def _left_s(self) -> float:
        """How long until the mailbox is read: when its time has come, or that of a root to be asked about."""
        if self._live_count >= MOST_LIVE or self._task.pending.suspected:
            return 0.0
        return min(self._read_at_s, self._task.pending.next_s()) - self._now_s()

    def _now_s(self) -> float:
        return self._exchange.terms.clock()
