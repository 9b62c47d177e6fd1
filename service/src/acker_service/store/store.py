"""The store as a whole: its rooms, opened on one server and closed together."""

import asyncio
import logging

from acker_protocol.problems import StoreUnavailable

from acker_service.domain.durability import RELAXED, Durability
from acker_service.domain.limits import BUCKETS
from acker_service.domain.standing import Standing
from acker_service.store.backlogs import Backlogs
from acker_service.store.callbacks import Callbacks
from acker_service.store.counts import CountsReader
from acker_service.store.dead_letters import DeadLetters
from acker_service.store.deliveries import Deliveries
from acker_service.store.departures import Departures
from acker_service.store.followers import Followers
from acker_service.store.fullness import Fullness
from acker_service.store.hints import Hints
from acker_service.store.listing import Listing
from acker_service.store.mailboxes import Mailboxes
from acker_service.store.readers import Readers
from acker_service.store.removal import Removal
from acker_service.store.requests import Requests
from acker_service.store.roots import Roots
from acker_service.store.server import Server
from acker_service.store.shards import Shards
from acker_service.store.spouts import Spouts
from acker_service.store.suitability import Suitability
from acker_service.store.survey import Survey
from acker_service.store.ticks import Ticks
from acker_service.store.topologies import DEFAULT, Topologies
from acker_service.store.watch import Watch
from acker_service.telemetry.meters import Meters

_log = logging.getLogger(__name__)


class Store:
    """All that is remembered.

    ``window_ms`` is how long a request's idempotency key is remembered at least, ``spout_idle_ms`` how long an
    ephemeral spout task stays unused, ``mailbox_max`` how many unread completions a spout task may have,
    ``buckets`` how many small hashes a shard of the default topology gets, ``durability`` when a write counts as done
    (for ``fsync_asserted`` see `Suitability`).
    """

    def __init__(
        self,
        url: str,
        *,
        window_ms: int,
        spout_idle_ms: int = 86_400_000,
        mailbox_max: int = 1_000_000,
        buckets: int = BUCKETS,
        durability: Durability = RELAXED,
        fsync_asserted: bool = False,
    ) -> None:
        self.meters = Meters()
        work = self.meters.work
        self.server = Server(url, self.meters.calls, durability=durability)
        self._suitability = Suitability(self.server, durability, fsync_asserted=fsync_asserted)
        self.window_ms = window_ms
        self.topologies = Topologies(self.server, window_ms=window_ms, buckets=buckets)
        self.spouts = Spouts(self.server, self.topologies)
        self.shards = Shards(self.server, self.topologies)
        self.counts = CountsReader(self.shards)
        self.survey = Survey(self.server, self.topologies, self.counts, Backlogs(self.shards, self.spouts))
        self.fullness = Fullness(self.survey, self.counts, self._suitability, mailbox_max=mailbox_max)
        self.requests = Requests(self.server, self.topologies, self.shards, self.spouts, self.fullness, work)
        self.roots = Roots(self.shards, self.spouts, work)
        self.listing = Listing(self.shards, self.spouts)
        self.mailboxes = Mailboxes(self.shards, work)
        self.callbacks = Callbacks(self.server, self.topologies, self.spouts)
        self.deliveries = Deliveries(self.server, self.shards)
        self.dead_letters = DeadLetters(self.shards, work)
        self.ticks = Ticks(self.server, self.shards, work)
        self.removal = Removal(self.server, self.topologies, self.shards, self.counts, work)
        self.departures = Departures(
            self.server, self.topologies, self.shards, self.spouts, self.counts, work, idle_ms=spout_idle_ms
        )
        self.hints = Hints(self.server, self.topologies, self.shards, work)
        self.watch = Watch(self.topologies, self.shards)
        self.followers = Followers(self.topologies, self.spouts, self.hints, Readers(self.mailboxes), work)
        self._stop: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Put the function library into Redis and make the default topology.

        A store that is away is waited for by whoever uses it: opening logs that and goes on. Raises `ValueError` for a
        store that must not be used.
        """
        try:
            if fault := await self._suitability.fault():
                raise ValueError(fault)
            await self._suitability.warn()
            await self.server.load()
            await self.topologies.read(DEFAULT)
        except StoreUnavailable as fault:
            _log.warning("the store is not there yet: %s", fault.detail)

    def start(self, stopping: asyncio.Event) -> None:
        """Begin to look for news, so that who waits is woken; once ``stopping`` is set, everybody is."""
        self.hints.start()
        self._stop = asyncio.create_task(self._wake_at(stopping))

    async def answers(self) -> bool:
        """Whether Redis answers now; of several servers at least one, for it has work to do."""
        try:
            await self.server.ask_any("PING")
        except StoreUnavailable:
            return False
        return True

    async def ticking(self) -> bool:
        """Whether somebody is seen to let time pass."""
        try:
            return await self.ticks.going()
        except StoreUnavailable:
            return False

    async def standing(self) -> Standing | None:
        """Tell how the store stands, as it was seen a moment ago; None if it does not answer. Never raises."""
        look = await self.survey.recent()
        if look is None:
            return None
        found = {topology.name: counts.standing for topology, counts in look.counts}
        full = self.fullness.is_store_full
        return Standing(
            used_bytes=look.used, most_bytes=look.most, is_full=full, is_ticked=look.ticked, topologies=found
        )

    async def close(self) -> None:
        """Close all connections."""
        if self._stop is not None:
            self._stop.cancel()
        await self.hints.stop()
        await self.fullness.stop()
        await self.watch.stop()
        await self.survey.stop()
        await self.server.close()

    async def _wake_at(self, stopping: asyncio.Event) -> None:
        await stopping.wait()
        self.hints.wake_all()
        self.watch.wake_all()
