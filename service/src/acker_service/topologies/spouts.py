"""Reads and writes spout tasks: their indexes, by name and back, and their callbacks."""

import asyncio
import json
from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from typing import Any

from acker_protocol.errors import SpoutBusy, StoreFull, StoreUnavailable, UnknownSpout

from acker_service.redis import config_functions
from acker_service.redis.client import RedisClient
from acker_service.redis.stamp import StaleStamp
from acker_service.topologies.callback import RegisteredCallback, decode_registered
from acker_service.topologies.registry import (
    DELETION_TIMEOUT_MS,
    POLL_INTERVAL_S,
    TopologyRegistry,
    retries,
)
from acker_service.topologies.topology import Deletion, Topology, TopologyRecreated

UNREGISTERED = 2**32 - 1
"""The index of a spout task that is not registered."""

NOT_FOUND_AGAIN = 2**32 - 2
"""The index of a spout task that a shard asked for, and that was not registered then either."""

_DELETION_POLLS = int(DELETION_TIMEOUT_MS / 1000 / POLL_INTERVAL_S)

CallbackChange = Callable[[RegisteredCallback | None, int], RegisteredCallback | None]
"""Gives the new callback from the present one and the time in milliseconds; may raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spout:
    """A spout task. ``index`` represents its name in records and mailbox keys and is never used again.

    ``deletion`` is set while it is being deleted, since ``deletion_started_ms``; times are by Redis's clock, in Unix
    milliseconds.
    """

    name: str
    index: int
    created_ms: int = 0
    callback: RegisteredCallback | None = None
    ephemeral: bool = False
    deletion: Deletion | None = None
    deletion_started_ms: int = 0

    def public(self) -> dict[str, Any]:
        """Write what callers see of it, besides its counts."""
        callback = self.callback.public() if self.callback else None
        return {"spout_task": self.name, "callback": callback, "ephemeral": self.ephemeral}

    def encode(self) -> str:
        """Write it as Redis keeps it."""
        return f"{self.index} {self.created_ms} {self.document()}"

    def document(self) -> str:
        """Write the part that may change."""
        callback = self.callback.document() if self.callback else None
        members: dict[str, Any] = {"callback": callback, "ephemeral": self.ephemeral}
        if self.deletion:
            members |= {"doom": self.deletion, "doomed_ms": self.deletion_started_ms}
        return json.dumps(members)


class SpoutRegistry:
    """Reads and writes spout tasks, with a cache for each version of a topology: a deletion raises the version."""

    def __init__(self, redis: RedisClient, registry: TopologyRegistry) -> None:
        self._redis, self._registry = redis, registry
        self._caches: dict[str, tuple[object, dict[str, Spout]]] = {}
        self._with_callback: dict[str, tuple[object, list[Spout]]] = {}

    async def get(self, topology: Topology, name: str) -> Spout:
        """Give a spout task. Raises `UnknownSpout`."""
        return self._cached(topology).get(name) or await self.read(topology, name)

    async def read(self, topology: Topology, name: str) -> Spout:
        """Read a spout task from Redis. Raises `UnknownSpout`, or `TopologyRecreated`."""
        spout = (await self.read_all(topology)).get(name)
        if spout is not None:
            return spout
        if (await self._registry.refresh(topology.name)).incarnation != topology.incarnation:
            raise TopologyRecreated(f"topology {topology.name} was made again meanwhile")
        raise UnknownSpout(f"topology {topology.name} has no spout task {name}")

    async def names(self, topology: Topology, indexes: set[int]) -> dict[int, str]:
        """Give the names of spout tasks by index; empty where the spout task was deleted."""
        known = {spout.index: spout.name for spout in self._cached(topology).values()}
        if not indexes <= known.keys():
            known = {spout.index: spout.name for spout in (await self.read_all(topology)).values()}
        return {index: known.get(index, "") for index in indexes}

    async def read_all(self, topology: Topology) -> dict[str, Spout]:
        """Read all spout tasks of a topology, by name."""
        call = config_functions.read_spouts(topology.name, topology.incarnation)
        values = await self._redis.execute(call)
        await self._redis.wait_replicated(call)
        spouts = {name: _decode(name, value) for name, value in values.items()}
        self._caches[topology.name] = (self._cache_key(topology), spouts)
        return spouts

    async def with_callback(self, topology: Topology) -> list[Spout]:
        """Give the spout tasks that have a callback; a change of one raises the topology's version."""
        key, spouts = self._with_callback.get(topology.name, (None, []))
        if key != self._cache_key(topology):
            spouts = [spout for spout in (await self.read_all(topology)).values() if spout.callback]
            self._with_callback[topology.name] = (self._cache_key(topology), spouts)
        return spouts

    async def find(self, topology: Topology, names: Set[str]) -> dict[str, int]:
        """Give the indexes of spout tasks, `UNREGISTERED` for those that do not exist; waits for deletions to end.

        Raises `StoreUnavailable` if a deletion takes long.
        """
        for _ in range(_DELETION_POLLS):
            spouts = await self._read_named(topology, names)
            deleting = [spout.name for spout in spouts.values() if spout.deletion]
            if not deleting:
                return {name: spouts[name].index if name in spouts else UNREGISTERED for name in names}
            await asyncio.sleep(POLL_INTERVAL_S)
        raise StoreUnavailable(f"spout task {deleting[0]} is being removed, and that takes long")

    async def ensure(self, topology: Topology, names: set[str]) -> dict[str, int]:
        """Give the indexes of spout tasks, and create those that are new, without a callback. Raises `StaleStamp`.

        A new one that Redis has no memory for is `UNREGISTERED`: its inits have to be refused.
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
        """Create a spout task, or update it (None keeps a field); says whether it is new. Idempotent."""
        for _ in retries(f"topology {topology.name}", shards=len(topology.shards)):
            try:
                return await self._write(topology, name, ephemeral=ephemeral)
            except StaleStamp as stale:
                topology = await self._registry.refresh_after(topology, stale)
        raise AssertionError("retries end by raising")

    async def _ensure_one(self, topology: Topology, name: str) -> Spout:
        """Give a spout task that is not being deleted; waits for the end of a deletion."""
        spout = self._cached(topology).get(name) or (await self._write(topology, name))[0]
        for _ in range(_DELETION_POLLS):
            if not spout.deletion:
                return spout
            await asyncio.sleep(POLL_INTERVAL_S)
            await self.read_all(topology)
            spout = (await self._write(topology, name))[0]
        raise StoreUnavailable(f"spout task {name} is being removed, and that takes long")

    async def _write(self, topology: Topology, name: str, *, ephemeral: bool | None = None) -> tuple[Spout, bool]:
        read = config_functions.read_spout(topology.name, topology.incarnation, name)
        for _ in retries(f"spout task {name}"):
            value = await self._redis.execute(read)
            present = _decode(name, value) if value else None
            wanted = present or Spout(name=name, index=-1)
            if ephemeral is not None:
                wanted = replace(wanted, ephemeral=ephemeral)
            if wanted == present:
                await self._redis.wait_replicated(read)
                return self._cache_spout(topology, present), False
            write = config_functions.write_spout(
                topology.name, stamp=topology.stamp, name=name, present=value or "", document=wanted.document()
            )
            written = await self._redis.execute(write)
            if written is not None:
                return self._cache_spout(topology, _decode(name, written)), present is None
        raise AssertionError("retries end by raising")

    async def mark(self, topology: Topology, before: Spout, after: Spout | None) -> Topology | None:
        """Replace a spout task, or remove it (None), and raise the topology's version on every shard.

        Gives the topology as it is then; None if the spout task was changed since it was read.
        """
        value = after.encode() if after else ""
        call = config_functions.mark_spout(
            topology.name, stamp=topology.stamp, name=before.name, present=before.encode(), value=value
        )
        if not await self._redis.execute(call):
            return None
        refreshed = await self._registry.refresh(topology.name)
        await self._registry.stamp_shards(refreshed)
        return refreshed

    async def _read_named(self, topology: Topology, names: Set[str]) -> dict[str, Spout]:
        """Give those of these spout tasks that exist; reads those that are not cached, or were being deleted."""
        cached = self._cached(topology)
        spouts = {name: cached[name] for name in names if name in cached and not cached[name].deletion}
        if missing := sorted(names - spouts.keys()):
            call = config_functions.read_named_spouts(topology.name, topology.incarnation, missing)
            values = await self._redis.execute(call)
            await self._redis.wait_replicated(call)
            found = {name: _decode(name, value) for name, value in values.items()}
            self._caches[topology.name] = (self._cache_key(topology), self._cached(topology) | found)
            spouts |= found
        return spouts

    def _cached(self, topology: Topology) -> dict[str, Spout]:
        key, spouts = self._caches.get(topology.name, (None, {}))
        return spouts if key == self._cache_key(topology) else {}

    def _cache_key(self, topology: Topology) -> object:
        """A cache is valid for one version of a topology, and while its keys stay on the same servers."""
        return topology.stamp, self._redis.generation

    def _cache_spout(self, topology: Topology, spout: Spout) -> Spout:
        self._caches[topology.name] = (self._cache_key(topology), self._cached(topology) | {spout.name: spout})
        return spout


class Callbacks:
    """Changes callbacks. A change raises the topology's version, so that every replica reads the callback again."""

    def __init__(self, registry: TopologyRegistry, spouts: SpoutRegistry) -> None:
        self._registry, self._spouts = registry, spouts

    async def change(self, topology: str, spout_task: str, change: CallbackChange) -> tuple[Spout, Spout]:
        """Change a callback; gives the spout task before and after. Raises `UnknownSpout`, `SpoutBusy`.

        It is written only if it was not changed since it was read, else tried again. Idempotent if ``change`` is.
        """
        now_ms = await self._registry.now_ms()
        for _ in retries(f"spout task {spout_task}"):
            current = await self._registry.refresh(topology)
            spout = await self._spouts.read(current, spout_task)
            if spout.deletion:
                raise SpoutBusy(f"spout task {spout_task} is being removed")
            changed = replace(spout, callback=change(spout.callback, now_ms))
            if changed == spout or await self._spouts.mark(current, spout, changed):
                return spout, changed
        raise AssertionError("retries end by raising")


def _decode(name: str, value: str) -> Spout:
    """Read a spout task as Redis keeps it; fields of a later release are ignored."""
    index, created_ms, document = value.split(" ", 2)
    members = json.loads(document)
    callback = members.get("callback")
    return Spout(
        name=name,
        index=int(index),
        created_ms=int(created_ms),
        callback=decode_registered(callback) if callback else None,
        ephemeral=members.get("ephemeral", False),
        deletion=Deletion(members["doom"]) if members.get("doom") else None,
        deletion_started_ms=members.get("doomed_ms", 0),
    )
