"""Delivers the completions of one spout task: takes some, sends them, settles them, one after the other."""

import asyncio
import contextlib
import logging
from dataclasses import replace

from acker_protocol.problems import NotFound, Problem

from acker_service.domain.registration import Registered
from acker_service.domain.terms import Terms
from acker_service.store.deliveries import Changed, Outdated, Post, Taken
from acker_service.store.spouts import Spout
from acker_service.store.store import Store
from acker_service.store.topology import Remade, Topology
from acker_service.store.waiting import Waiter

AGAIN_S = 0.5
"""A store that is away is asked again after so long."""

IDLE_S = 30.0
"""Whoever waits for news looks after so long all the same."""

_log = logging.getLogger(__name__)


class Ended(Exception):
    """There is nothing more to deliver here: the callback is another, or not on, or gone."""


class Courier:
    """Delivers to one callback as it was registered; when that changes another courier takes its place.

    Several may deliver for one spout task, in as many processes: one at a time has the lease.
    """

    divides = True
    """Whether no request holds more than the terms say, so that large entries have to be divided."""

    def __init__(self, store: Store, topology: Topology, spout: Spout, *, worker: str, terms: Terms) -> None:
        self.store, self.topology, self.spout, self.terms = store, topology, spout, terms
        self._worker, self._known_by = worker, topology.pair
        self._stopping = asyncio.Event()
        self._waiter = Waiter()

    @property
    def name(self) -> str:
        """Says for whom this delivers, in a log."""
        return f"{self.topology.name}/{self.spout.name}"

    async def deliver(self, post: Post, taken: Taken) -> float:
        """Send what was taken and settle it; gives for how many seconds nothing shall be sent. Raises `Ended`."""
        raise NotImplementedError

    def stop(self) -> None:
        """End once what is being sent is settled."""
        self._stopping.set()
        self._waiter.wake()

    async def run(self) -> None:
        """Deliver until told to stop, or until the callback is another."""
        with self.store.hints.waiting(self.topology, self.spout) as self._waiter:
            while not self._stopping.is_set():
                try:
                    await self._turn()
                except (Ended, NotFound, Remade):
                    break
                except Changed:
                    continue  # and look at the callback again
                except Outdated as outdated:
                    await self._mend(outdated.begun_ms)
                    break
                except Problem as problem:
                    _log.warning("delivery for %s waits: %s", self.name, problem.detail)
                    await self.rest(AGAIN_S)
            with contextlib.suppress(Problem):
                await self.store.deliveries.leave(self._post(await self._topology()))

    async def rest(self, seconds: float) -> None:
        """Sleep, but not beyond a stop."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    async def now_ms(self) -> int:
        """Tell the time, by Redis's clock."""
        return await self.store.topologies.now_ms()

    async def _turn(self) -> None:
        """Deliver what there is, or wait for some."""
        post = self._post(await self._checked())
        now_ms = await self.now_ms()
        taken = await self._gather(post, now_ms)
        if taken.entries:
            rest_s = await self.deliver(post, taken)
            if rest_s:
                await self.store.deliveries.leave(post, rest_s=rest_s)
        elif taken.held_ms is not None:
            await self._waiter.wait(min(IDLE_S, taken.held_ms / 1_000))
        elif not taken.more:
            await self.store.deliveries.leave(post)
            due_s = IDLE_S if taken.due_ms is None else (taken.due_ms - now_ms) / 1_000
            await self._waiter.wait(max(0.0, min(IDLE_S, due_s)))

    async def _gather(self, post: Post, now_ms: int) -> Taken:
        """Take what there is; if that is little and new, wait a moment for what comes with it."""
        taken = await self.store.deliveries.take(post, now_ms)
        total = sum(len(entry.pieces) for entry in taken.entries)
        if taken.again or taken.more or not 0 < total < self.terms.most or not self.terms.wait_s:
            return taken
        await self.rest(self.terms.wait_s)
        return await self.store.deliveries.take(post, now_ms)

    async def _topology(self) -> Topology:
        return await self.store.topologies.get(self.topology.name)

    async def _checked(self) -> Topology:
        """Give the topology as it is known now; whenever that changed, see to it that the callback did not."""
        topology = await self._topology()
        if topology.pair != self._known_by:
            same = topology.incarnation == self.topology.incarnation
            if not same or await self.store.spouts.get(topology, self.spout.name) != self.spout:
                raise Ended
            self._known_by = topology.pair
        return topology

    def _post(self, topology: Topology) -> Post:
        return Post(
            topology=topology,
            spout=self.spout,
            worker=self._worker,
            lease_ms=self.terms.lease_ms,
            most=self.terms.most,
            divides=self.divides,
        )

    async def _mend(self, begun_ms: int) -> None:
        """Begin anew, if a shard knows of a later callback than there is: the clock was set back between the two."""

        def change(present: Registered | None, _: int) -> Registered | None:
            behind = present is not None and present.since_ms < begun_ms
            return replace(present, since_ms=begun_ms) if present is not None and behind else present

        with contextlib.suppress(Problem):
            await self.store.callbacks.change(self.topology.name, self.spout.name, change)
