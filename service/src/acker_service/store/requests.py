"""Applies requests to the roots of a topology, once each."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from acker_protocol.messages import Ack, Init, Message
from acker_protocol.problems import Problem, StoreUnavailable

from acker_service.domain.routing import Part, split
from acker_service.store import packing
from acker_service.store.caps import Caps
from acker_service.store.packing import Answer
from acker_service.store.server import Server
from acker_service.store.spouts import Spouts
from acker_service.store.topologies import Stale, Topologies, Topology, attempts
from acker_service.store.turns import INITS, OTHERS, Applied, Packed, Turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Operations that came together: to one endpoint, under one idempotency key (None: none)."""

    endpoint: str
    messages: Sequence[Message]
    key: str | None = None

    @property
    def spout_tasks(self) -> set[str]:
        """The spout tasks that its inits name."""
        return {message.spout_task for message in self.messages if isinstance(message, Init)}

    @property
    def repeatable(self) -> bool:
        """Whether it may be sent again when its fate is unknown: with a key, or if it holds no ack."""
        return self.key is not None or not any(isinstance(message, Ack) for message in self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a request was answered, one answer an operation; ``repeated`` if every shard knew it from before."""

    answers: Sequence[Answer]
    repeated: bool


class Requests:
    """Applies requests, each shard's part in one atomic step."""

    def __init__(self, server: Server, topologies: Topologies, spouts: Spouts) -> None:
        self._topologies, self._spouts = topologies, spouts
        self._turns, self._caps = Turns(server), Caps(server, topologies)

    async def apply(self, topology: Topology, request: Request) -> Reply:
        """Apply a request.

        Raises `StoreUnavailable` if a shard did not answer, or is not known to have done its part; ``retryable`` says
        whether the request may be sent again.
        """
        parts = split(request.messages, shards=topology.layout.shards, capped=topology.configuration.max_spout_pending)
        try:
            results = await self._apply_parts(topology, request, parts)
        except StoreUnavailable as fault:
            raise StoreUnavailable(fault.detail, retryable=request.repeatable) from fault
        answers: dict[int, Answer] = {}
        for part, applied in zip(parts, results, strict=True):
            answers.update(zip(part.order, packing.unpack_words(applied.words), strict=True))
        return Reply(
            answers=[answers[index] for index in range(len(answers))],
            repeated=bool(results) and all(applied.repeated for applied in results),
        )

    async def _apply_parts(self, topology: Topology, request: Request, parts: Sequence[Part]) -> list[Applied]:
        if topology.configuration.max_spout_pending is not None and request.spout_tasks:
            return await self._apply_capped(topology, request, parts)
        return await _all([asyncio.ensure_future(self._apply_part(topology, request, part)) for part in parts])

    async def _apply_part(self, topology: Topology, request: Request, part: Part) -> Applied:
        inits = request.spout_tasks
        for _ in attempts(topology):
            try:
                indexes = await self._spouts.register(topology, inits)
                packed = _pack(topology, request, part, indexes)
                function = INITS if inits else OTHERS
                return await self._turns.apply(topology, part.shard, function, packed)
            except Stale as stale:
                topology = await self._topologies.renew(topology, stale)
        raise AssertionError("attempts end by raising")

    async def _apply_capped(self, topology: Topology, request: Request, parts: Sequence[Part]) -> list[Applied]:
        """Apply a request with inits under a cap: one shard after the other, with the room that is left."""
        done: dict[int, Applied] = {}
        for _ in attempts(topology):
            try:
                indexes = await self._spouts.register(topology, request.spout_tasks)
                waiting = {p.shard: _pack(topology, request, p, indexes) for p in parts if p.shard not in done}
                async for shard, applied in self._caps.apply(topology, indexes, waiting):
                    done[shard] = applied  # noqa: PERF403 - what is done stays done if a later shard is stale
                return [done[part.shard] for part in parts]
            except Stale as stale:
                topology = await self._topologies.renew(topology, stale)
        raise AssertionError("attempts end by raising")


def _pack(topology: Topology, request: Request, part: Part, indexes: dict[str, int]) -> Packed:
    packed = {i: packing.pack(request.messages[i], topology.layout, indexes.__getitem__) for i in part.order}
    operations = b"".join(packed[index] for index in part.order)
    if request.key is None:
        return Packed(operations=operations)
    given = b"".join(packed[index] for index in part.given)
    identity = packing.identify(request.endpoint, request.key, given, sets=topology.seen_sets)
    return Packed(operations=operations, identity=identity)


async def _all(tasks: Sequence[asyncio.Future[Applied]]) -> list[Applied]:
    """Wait for every shard, also if one fails, so that nothing is under way any more. Raises the first fault."""
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for kind in (StoreUnavailable, Problem, BaseException):
        for result in results:
            if isinstance(result, kind):
                raise result
    return [result for result in results if isinstance(result, Applied)]
