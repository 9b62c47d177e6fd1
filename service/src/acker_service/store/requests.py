"""Applies requests to the roots of a topology, once each."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from acker_protocol.messages import REFUSED, Word
from acker_protocol.problems import Problem, StoreUnavailable, TopologyBusy

from acker_service.domain.routing import Part, split
from acker_service.store import packing, tallies
from acker_service.store.caps import Caps
from acker_service.store.fullness import Fullness
from acker_service.store.packing import Answer
from acker_service.store.request import Request
from acker_service.store.server import Server
from acker_service.store.shards import Shards
from acker_service.store.spouts import NOBODY, Spouts
from acker_service.store.topologies import Topologies, attempts
from acker_service.store.topology import Doom, Stale, Topology
from acker_service.store.turns import INITS, OTHERS, Applied, Turns
from acker_service.telemetry.work import WorkMeters


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a request was answered, a letter an operation; ``repeated`` if every shard knew it from before."""

    letters: str
    repeated: bool

    @property
    def answers(self) -> list[Answer]:
        """One answer an operation."""
        return packing.unpack_words(self.letters)

    @property
    def refused(self) -> list[tuple[int, Word]]:
        """Which operations were refused, and how."""
        if packing.REFUSED.isdisjoint(self.letters):
            return []
        return [(index, answer.word) for index, answer in enumerate(self.answers) if answer.word in REFUSED]


Done = dict[int, tuple[Part, Applied]]
"""What of a request has been applied, by shard."""


class Requests:
    """Applies requests, each shard's part in one atomic step."""

    def __init__(
        self,
        server: Server,
        topologies: Topologies,
        shards: Shards,
        spouts: Spouts,
        fullness: Fullness,
        meters: WorkMeters,
    ) -> None:
        self._topologies, self._spouts, self._fullness, self._meters = topologies, spouts, fullness, meters
        self._turns, self._caps = Turns(server), Caps(server, shards)

    async def apply(self, topology: Topology, request: Request) -> Reply:
        """Apply a request.

        Raises `StoreUnavailable` if a shard did not answer, or is not known to have done its part; ``retryable`` says
        whether the request may be sent again.
        """
        done: Done = {}
        try:
            await self._apply(topology, request, done)
        except Problem as fault:
            if done or isinstance(fault, StoreUnavailable):
                raise StoreUnavailable(fault.detail, retryable=request.repeatable) from fault
            raise
        finally:
            tallies.note(self._meters, topology.name, request.messages, done.values())
        repeated = bool(done) and all(applied.repeated for _, applied in done.values())
        return Reply(letters=_gather(done, len(request.messages)), repeated=repeated)

    async def _apply(self, topology: Topology, request: Request, done: Done) -> None:
        """Apply the parts of a request; those of stale shards again, by the configuration that holds there now."""
        for _ in attempts(topology):
            topology = await self._admit(topology, request)
            try:
                indexes = await self._spouts.register(topology, request.spout_tasks)
                await self._apply_rest(topology, request, indexes, done)
            except Stale as stale:
                topology = await self._topologies.renew(topology, stale)
            else:
                return

    async def _admit(self, topology: Topology, request: Request) -> Topology:
        """Let a request with inits wait for a topology that may be going. Raises `TopologyBusy` if it will go."""
        while topology.doom is Doom.GONE or (topology.doom and request.spout_tasks):
            if topology.doom is Doom.FORCE:
                raise TopologyBusy(f"topology {topology.name} is being deleted and takes no more inits")
            topology = await self._topologies.wait(topology)
        return topology

    async def _apply_rest(self, topology: Topology, request: Request, indexes: dict[str, int], done: Done) -> None:
        """Apply the parts that are not done; what is done stays done if another shard is stale. Raises `Stale`."""
        cap = topology.configuration.max_spout_pending
        parts = split(request.messages, shards=topology.layout.shards, capped=cap)
        rest = {part.shard: part for part in parts if part.shard not in done}
        packed = request.pack(rest.values(), topology, indexes)
        full = await self._fullness.full_mailboxes(topology, indexes.values())
        no_room = self._fullness.is_store_full or NOBODY in indexes.values()
        function = INITS if indexes and not no_room else OTHERS
        if (cap is not None or full) and indexes:
            async for shard, applied in self._caps.apply(topology, indexes, packed, function, full):
                done[shard] = (rest[shard], applied)
            return
        calls = [self._turns.apply(topology, shard, function, own) for shard, own in packed.items()]
        results = await asyncio.gather(*calls, return_exceptions=True)
        for part, result in zip(rest.values(), results, strict=True):
            if isinstance(result, Applied):
                done[part.shard] = (part, result)
        _raise_first(results)


def _gather(done: Done, count: int) -> str:
    """Put the letters that the shards answered in the order of the request."""
    letters = np.zeros(count, np.uint8)
    for part, applied in done.values():
        letters[np.asarray(part.order)] = np.frombuffer(applied.words.encode(), np.uint8)
    return letters.tobytes().decode()


def _raise_first(results: Sequence[Applied | BaseException]) -> None:
    """Raise the first fault; a problem before a stale shard, which is only tried again."""
    for kind in (StoreUnavailable, Problem, BaseException):
        for result in results:
            if isinstance(result, kind):
                raise result
