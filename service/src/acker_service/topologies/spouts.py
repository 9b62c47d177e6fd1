"""Knows the spout tasks of topologies: their indexes, by name and back."""

import asyncio
import json
from dataclasses import dataclass, replace
from typing import Any

from acker_protocol.errors import StoreFull, StoreUnavailable, UnknownSpout

from acker_service.redis import keys
from acker_service.redis.client import RedisClient
from acker_service.topologies.registration import RegisteredCallback, decode_registered
from acker_service.topologies.registry import (
    DELETION_TIMEOUT_MS,
    MAX_ATTEMPTS,
    POLL_INTERVAL_S,
    TopologyRegistry,
    retries,
)
from acker_service.topologies.stamp import StaleStamp, Topology, TopologyRecreated

UNREGISTERED = 2**32 - 1
"""Stands for a spout task that could not be registered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spout:
    """A spout task. ``index`` stands for its name in records and mailbox keys and is never used again.

    ``doom`` is set while it is being removed, since ``doomed_ms``; ``made_ms`` is when it was made, by Redis's clock.
    """

    name: str
    index: int
    created_ms: int = 0
    callback: RegisteredCallback | None = None
    ephemeral: bool = False
    deletion: str | None = None
    deletion_started_ms: int = 0

    def public(self) -> dict[str, Any]:
        """What callers see of it, besides its counts."""
        callback = self.callback.public() if self.callback else None
        return {"spout_task": self.name, "callback": callback, "ephemeral": self.ephemeral}

    def encode(self) -> str:
        """Write it as it stands in Redis."""
        return f"{self.index} {self.created_ms} {self.document()}"

    def document(self) -> str:
        """Write what may change of it."""
        callback = self.callback.document() if self.callback else None
        members: dict[str, Any] = {"callback": callback, "ephemeral": self.ephemeral}
        if self.deletion:
            members |= {"doom": self.deletion, "doomed_ms": self.deletion_started_ms}
        return json.dumps(members)


class SpoutRegistry:
    """Reads and writes spout tasks, with a cache for each version of a topology: a removal raises that."""

    def __init__(self, server: RedisClient, topologies: TopologyRegistry) -> None:
        self._server, self._topologies = server, topologies
        self._caches: dict[str, tuple[object, dict[str, Spout]]] = {}
        self._with_callback: dict[str, tuple[object, list[Spout]]] = {}

    async def get(self, topology: Topology, name: str) -> Spout:
        """Give a spout task. Raises `UnknownSpout`."""
        return self._cached(topology).get(name) or await self.read(topology, name)

    async def read(self, topology: Topology, name: str) -> Spout:
        """Read a spout task from Redis. Raises `UnknownSpout`, or `Remade` if the topology is not the one it was."""
        spout = (await self.read_all(topology)).get(name)
        if spout is not None:
            return spout
        if (await self._topologies.refresh(topology.name)).incarnation != topology.incarnation:
            raise TopologyRecreated(f"topology {topology.name} was made again meanwhile")
        raise UnknownSpout(f"topology {topology.name} has no spout task {name}")

    async def names(self, topology: Topology, indexes: set[int]) -> dict[int, str]:
        """Give the names that indexes stand for; empty where the spout task was removed."""
        known = {spout.index: spout.name for spout in self._cached(topology).values()}
        if not indexes <= known.keys():
            known = {spout.index: spout.name for spout in (await self.read_all(topology)).values()}
        return {index: known.get(index, "") for index in indexes}

    async def read_all(self, topology: Topology) -> dict[str, Spout]:
        """Read all spout tasks of a topology, by name."""
        flat = await self._server.read("HGETALL", keys.spouts(topology.name, topology.incarnation))
        await self._server.wait_replicated(keys.topology(topology.name))
        pairs = flat.items() if isinstance(flat, dict) else zip(flat[::2], flat[1::2], strict=True)
        spouts = {name.decode(): _decode(name.decode(), value.decode()) for name, value in pairs}
        self._caches[topology.name] = (self._cache_key(topology), spouts)
        return spouts

    async def with_callback(self, topology: Topology) -> list[Spout]:
        """Give the spout tasks that have a callback; a change of one raises the topology's version."""
        by, spouts = self._with_callback.get(topology.name, (None, []))
        if by != self._cache_key(topology):
            spouts = [spout for spout in (await self.read_all(topology)).values() if spout.callback]
            self._with_callback[topology.name] = (self._cache_key(topology), spouts)
        return spouts

    async def ensure(self, topology: Topology, names: set[str]) -> dict[str, int]:
        """Give the indexes of spout tasks, making those that are new, with callback null. Raises `Stale`.

        A new one that Redis has no memory for is `NOBODY`: its inits have to be refused.
        """
        return {name: await self._index(topology, name) for name in names}

    async def _index(self, topology: Topology, name: str) -> int:
        try:
            return (await self._ensure_one(topology, name)).index
        except StoreFull:
            return UNREGISTERED

    async def create_or_update(
        self, topology: Topology, name: str, *, ephemeral: bool | None = None
    ) -> tuple[Spout, bool]:
        """Make a spout task, or change it (None: leave as it is); says whether it is new. Idempotent."""
        for _ in retries(topology):
            try:
                return await self._write(topology, name, ephemeral=ephemeral)
            except StaleStamp as stale:
                topology = await self._topologies.refresh_after(topology, stale)
        raise AssertionError("attempts end by raising")

    async def _ensure_one(self, topology: Topology, name: str) -> Spout:
        """Give a spout task that stays: one that is marked is waited for."""
        spout = self._cached(topology).get(name) or (await self._write(topology, name))[0]
        for _ in range(int(DELETION_TIMEOUT_MS / 1000 / POLL_INTERVAL_S)):
            if not spout.deletion:
                return spout
            await asyncio.sleep(POLL_INTERVAL_S)
            await self.read_all(topology)
            spout = (await self._write(topology, name))[0]
        raise StoreUnavailable(f"spout task {name} is being removed, and that takes long")

    async def _write(self, topology: Topology, name: str, *, ephemeral: bool | None = None) -> tuple[Spout, bool]:
        target = [keys.topology(topology.name), keys.spouts(topology.name, topology.incarnation)]
        for _ in range(MAX_ATTEMPTS):
            value = await self._server.read("HGET", target[1], name)
            present = _decode(name, value.decode()) if value else None
            wanted = present or Spout(name=name, index=-1)
            if ephemeral is not None:
                wanted = replace(wanted, ephemeral=ephemeral)
            if wanted == present:
                await self._server.wait_replicated(target[0])
                return self._cache_spout(topology, present), False
            args = (topology.stamp, name, value or "", wanted.document())
            word, *values = await self._server.call("acker_write_spout_v1", target, *args)
            if word == b"stale":
                raise StaleStamp(target[0], values[0].decode())
            if word == b"ok":
                return self._cache_spout(topology, _decode(name, values[0].decode())), present is None
        raise StoreUnavailable(f"spout task {name} is being changed by too many at once")

    def _cached(self, topology: Topology) -> dict[str, Spout]:
        known_by, spouts = self._caches.get(topology.name, (None, {}))
        return spouts if known_by == self._cache_key(topology) else {}

    def _cache_key(self, topology: Topology) -> object:
        """What a cache holds for: a version of a topology, on the servers that there are."""
        return topology.stamp, self._server.generation

    def _cache_spout(self, topology: Topology, spout: Spout) -> Spout:
        self._caches[topology.name] = (self._cache_key(topology), self._cached(topology) | {spout.name: spout})
        return spout


def _decode(name: str, value: str) -> Spout:
    """Read it as it stands in Redis; what a later release knows of it is passed over."""
    index, made, document = value.split(" ", 2)
    members = json.loads(document)
    callback = members.get("callback")
    return Spout(
        name=name,
        index=int(index),
        created_ms=int(made),
        callback=decode_registered(callback) if callback else None,
        ephemeral=members.get("ephemeral", False),
        deletion=members.get("doom"),
        deletion_started_ms=members.get("doomed_ms", 0),
    )
