"""Reads and writes spout tasks: their indexes, by name and back, and their callbacks."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from acker_protocol.errors import SpoutBusy, StoreFull, StoreUnavailable, TooManySpouts, UnknownSpout

from acker_service.redis import functions
from acker_service.redis.client import RedisClient
from acker_service.redis.functions.topologies import SpoutsFull
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
"""Returns the new callback from the present one and the time in milliseconds; may raise."""


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
            members |= {"deletion": self.deletion, "deletion_started_ms": self.deletion_started_ms}
        return json.dumps(members)


class SpoutRegistry:
    """Reads and writes spout tasks, with a cache for each version of a topology: a deletion raises the version."""

    def __init__(self, redis: RedisClient, registry: TopologyRegistry, *, max_spouts: int) -> None:
        """Name the store; a topology has ``max_spouts`` spout tasks at most."""
        self._redis = redis
        self._registry = registry
        self._max_spouts = max_spouts
        self._caches: dict[str, tuple[object, dict[str, Spout]]] = {}
        self._with_callback: dict[str, tuple[object, asyncio.Task[list[Spout]]]] = {}
        self._gathering: dict[object, tuple[set[str], asyncio.Task[dict[str, Spout]]]] = {}

    async def get(self, topology: Topology, name: str) -> Spout:
        """Return a spout task, from Redis if it is not in the cache. Raises `UnknownSpout`."""
        return self._cached(topology).get(name) or await self.read(topology, name)

    def cached_index(self, topology: Topology, name: str) -> int | None:
        """Return the index of a spout task if it is in the cache, and not being deleted."""
        spout = self._cached(topology).get(name)
        return None if spout is None or spout.deletion else spout.index

    async def read(self, topology: Topology, name: str) -> Spout:
        """Read a spout task from Redis. Raises `UnknownSpout`, or `TopologyRecreated`."""
        spout = (await self._read_together(topology, name)).get(name)
        if spout is not None:
            return spout
        if (await self._registry.refresh(topology.name)).incarnation != topology.incarnation:
            raise TopologyRecreated(f"topology {topology.name} was made again meanwhile")
        raise UnknownSpout(f"topology {topology.name} has no spout task {name}")

    async def names(self, topology: Topology, indexes: set[int]) -> dict[int, str]:
        """Return the names of spout tasks by index; empty where the spout task was deleted."""
        known = {spout.index: spout.name for spout in self._cached(topology).values()}
        if not indexes <= known.keys():
            known = {spout.index: spout.name for spout in (await self.read_all(topology)).values()}
        return {index: known.get(index, "") for index in indexes}

    async def read_all(self, topology: Topology) -> dict[str, Spout]:
        """Read all spout tasks of a topology, by name."""
        call = functions.topologies.read_spouts(topology.name, topology.incarnation)
        values = await self._redis.execute(call)
        await self._redis.wait_replicated(call)
        spouts = {name: _decode(name, value) for name, value in values.items()}
        self._caches[topology.name] = (self._cache_key(topology), dict(spouts))
        return spouts

    async def with_callback(self, topology: Topology) -> list[Spout]:
        """Return the spout tasks that have a callback; a change of one raises the topology's version.

        They are read once for a version, whoever waits for it.
        """
        key, reading = self._with_callback.get(topology.name, (None, None))
        if reading is None or key != self._cache_key(topology) or _has_failed(reading):
            reading = asyncio.create_task(self._read_with_callback(topology))
            self._with_callback[topology.name] = (self._cache_key(topology), reading)
        return await asyncio.shield(reading)

    async def _read_with_callback(self, topology: Topology) -> list[Spout]:
        return [spout for spout in (await self.read_all(topology)).values() if spout.callback]

    async def _read_together(self, topology: Topology, name: str) -> dict[str, Spout]:
        """Read a spout task, with all others that are asked for in this turn of the event loop.

        A new version of a topology lets the workers of all its callbacks look at theirs.
        """
        key = topology.name, self._cache_key(topology)
        if key not in self._gathering:
            names = set[str]()
            self._gathering[key] = names, asyncio.create_task(self._read_gathered(topology, key, names))
        names, reading = self._gathering[key]
        names.add(name)
        return await asyncio.shield(reading)

    async def _read_gathered(self, topology: Topology, key: object, names: set[str]) -> dict[str, Spout]:
        await asyncio.sleep(0)
        del self._gathering[key]
        return await self._read_some(topology, sorted(names), confirms_absence=True)

    async def find(self, topology: Topology, names: Set[str]) -> dict[str, int]:
        """Return the indexes of spout tasks, `UNREGISTERED` for those that do not exist; waits for deletions to end.

        Raises `StoreUnavailable` if a deletion takes long.
        """
        return await self._indexes(topology, names, self._read_named)

    async def ensure(self, topology: Topology, names: Set[str]) -> dict[str, int]:
        """Return the indexes of spout tasks, and create those that are new, without a callback.

        Waits for deletions to end. A new one that Redis has no memory for is `UNREGISTERED`: its inits have to be
        refused. Raises `StaleStamp`, and `TooManySpouts` if none was created because not all have a place.
        """
        return await self._indexes(topology, names, self._ensure_named)

    async def _indexes(
        self, topology: Topology, names: Set[str], read: Callable[[Topology, Set[str]], Awaitable[dict[str, Spout]]]
    ) -> dict[str, int]:
        for _ in range(_DELETION_POLLS):
            spouts = await read(topology, names)
            deleting = [spout.name for spout in spouts.values() if spout.deletion]
            if not deleting:
                return {name: spouts[name].index if name in spouts else UNREGISTERED for name in names}
            await asyncio.sleep(POLL_INTERVAL_S)
        raise StoreUnavailable(f"spout task {deleting[0]} is being removed, and that takes long")

    async def _ensure_named(self, topology: Topology, names: Set[str]) -> dict[str, Spout]:
        """Return these spout tasks, and create those that are new; without those that Redis has no memory for.

        All of a batch take one call to read and one to create, whatever their number.
        """
        spouts = await self._read_named(topology, names)
        if new := sorted(names - spouts.keys()):
            with contextlib.suppress(StoreFull):
                _, created = await self._register(topology, new, Spout(name="", index=-1).document())
                spouts |= created
        return spouts

    async def _read_named(self, topology: Topology, names: Set[str]) -> dict[str, Spout]:
        """Return those of these spout tasks that exist; reads those that are not cached, or were being deleted."""
        cached = self._cached(topology)
        spouts = {name: cached[name] for name in names & cached.keys() if not cached[name].deletion}
        if missing := sorted(names - spouts.keys()):
            spouts |= await self._read_some(topology, missing)
        return spouts

    async def _read_some(
        self, topology: Topology, names: Sequence[str], *, confirms_absence: bool = False
    ) -> dict[str, Spout]:
        """Read those of these spout tasks that exist.

        Replicas have what is read; with ``confirms_absence`` also where it is nothing.
        """
        call = functions.topologies.read_some_spouts(topology.name, topology.incarnation, names)
        values = await self._redis.execute(call)
        found = {name: _decode(name, value) for name, value in zip(names, values, strict=True) if value}
        if found or confirms_absence:
            await self._redis.wait_replicated(call)
        if found:
            self._cache_spouts(topology, found)
        return found

    async def _register(self, topology: Topology, names: Sequence[str], document: str) -> tuple[bool, dict[str, Spout]]:
        """Create those of the spout tasks that are new; says whether any is, and gives all. Raises `TooManySpouts`."""
        reply = await self._redis.execute(
            functions.topologies.register_spouts(
                topology.name, stamp=topology.stamp, names=names, document=document, max_spouts=self._max_spouts
            )
        )
        if isinstance(reply, SpoutsFull):
            raise TooManySpouts(
                f"topology {topology.name} has {reply.present} spout tasks and may have {self._max_spouts} "
                f"(ACKER_MAX_SPOUTS): {reply.new} more were named, among them {names[0]}; delete unused ones"
            )
        spouts = {name: _decode(name, value) for name, value in zip(names, reply.values, strict=True)}
        self._cache_spouts(topology, spouts)
        return reply.created > 0, spouts

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

    async def _write(self, topology: Topology, name: str, *, ephemeral: bool | None) -> tuple[Spout, bool]:
        read = functions.topologies.read_some_spouts(topology.name, topology.incarnation, [name])
        for _ in retries(f"spout task {name}"):
            [value] = await self._redis.execute(read)
            present = _decode(name, value) if value else Spout(name=name, index=-1)
            wanted = present if ephemeral is None else replace(present, ephemeral=ephemeral)
            if not value:
                is_new, created = await self._register(topology, [name], wanted.document())
                if is_new:
                    return created[name], True
                continue  # another request was faster
            if wanted == present:
                await self._redis.wait_replicated(read)
                written: str | None = value
            else:
                write = functions.topologies.write_spout(
                    topology.name, stamp=topology.stamp, name=name, present=value, document=wanted.document()
                )
                written = await self._redis.execute(write)
            if written is not None:
                changed = _decode(name, written)
                self._cache_spouts(topology, {name: changed})
                return changed, False
        raise AssertionError("retries end by raising")

    async def mark(self, topology: Topology, before: Spout, after: Spout | None) -> Topology | None:
        """Replace a spout task, or remove it (None), and raise the topology's version on every shard.

        Gives the topology as it is then; None if the spout task was changed since it was read.
        """
        value = after.encode() if after else ""
        call = functions.topologies.mark_spout(
            topology.name, stamp=topology.stamp, name=before.name, present=before.encode(), value=value
        )
        if not await self._redis.execute(call):
            return None
        refreshed = await self._registry.refresh(topology.name)
        await self._registry.stamp_shards(refreshed)
        return refreshed

    def _cached(self, topology: Topology) -> dict[str, Spout]:
        key, spouts = self._caches.get(topology.name, (None, {}))
        return spouts if key == self._cache_key(topology) else {}

    def _cache_key(self, topology: Topology) -> object:
        """A cache is valid for one version of a topology, and while its keys stay on the same servers."""
        return topology.stamp, self._redis.generation

    def _cache_spouts(self, topology: Topology, spouts: Mapping[str, Spout]) -> None:
        """Add to the cache."""
        key, cached = self._caches.get(topology.name, (None, {}))
        if key == self._cache_key(topology):
            cached.update(spouts)
        else:
            self._caches[topology.name] = (self._cache_key(topology), dict(spouts))


class Callbacks:
    """Changes callbacks. A change raises the topology's version, so that every replica reads the callback again."""

    def __init__(self, registry: TopologyRegistry, spouts: SpoutRegistry) -> None:
        self._registry = registry
        self._spouts = spouts

    async def change(self, topology: str, spout_task: str, change: CallbackChange) -> tuple[Spout, Spout]:
        """Change a callback, and return the spout task before and after. Raises `UnknownSpout`, `SpoutBusy`.

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


def _has_failed(reading: "asyncio.Task[Any]") -> bool:
    return reading.done() and (reading.cancelled() or reading.exception() is not None)


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
        deletion=Deletion(members["deletion"]) if members.get("deletion") else None,
        deletion_started_ms=members.get("deletion_started_ms", 0),
    )
