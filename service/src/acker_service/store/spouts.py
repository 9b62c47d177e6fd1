"""Knows the spout tasks of topologies: their indexes, by name and back."""

import asyncio
import json
from dataclasses import dataclass, replace
from typing import Any

from acker_protocol.problems import StoreFull, StoreUnavailable, UnknownSpout

from acker_service.domain.registration import Registered, read_registered
from acker_service.store import keys
from acker_service.store.server import Server
from acker_service.store.topologies import ATTEMPTS, PATIENCE_MS, WAIT_S, Topologies, attempts
from acker_service.store.topology import Remade, Stale, Topology

NOBODY = 2**32 - 1
"""Stands for a spout task that could not be registered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spout:
    """A spout task. ``index`` stands for its name in records and mailbox keys and is never used again.

    ``doom`` is set while it is being removed, since ``doomed_ms``; ``made_ms`` is when it was made, by Redis's clock.
    """

    name: str
    index: int
    made_ms: int = 0
    callback: Registered | None = None
    ephemeral: bool = False
    doom: str | None = None
    doomed_ms: int = 0

    def public(self) -> dict[str, Any]:
        """What callers see of it, besides its counts."""
        callback = self.callback.public() if self.callback else None
        return {"spout_task": self.name, "callback": callback, "ephemeral": self.ephemeral}

    def encode(self) -> str:
        """Write it as it stands in Redis."""
        return f"{self.index} {self.made_ms} {self.document()}"

    def document(self) -> str:
        """Write what may change of it."""
        callback = self.callback.document() if self.callback else None
        members: dict[str, Any] = {"callback": callback, "ephemeral": self.ephemeral}
        if self.doom:
            members |= {"doom": self.doom, "doomed_ms": self.doomed_ms}
        return json.dumps(members)


class Spouts:
    """Reads and writes spout tasks, with a cache for each version of a topology: a removal raises that."""

    def __init__(self, server: Server, topologies: Topologies) -> None:
        self._server, self._topologies = server, topologies
        self._caches: dict[str, tuple[object, dict[str, Spout]]] = {}
        self._called_back: dict[str, tuple[object, list[Spout]]] = {}

    async def get(self, topology: Topology, name: str) -> Spout:
        """Give a spout task. Raises `UnknownSpout`."""
        return self._cached(topology).get(name) or await self.read(topology, name)

    async def read(self, topology: Topology, name: str) -> Spout:
        """Read a spout task from Redis. Raises `UnknownSpout`, or `Remade` if the topology is not the one it was."""
        spout = (await self.read_all(topology)).get(name)
        if spout is not None:
            return spout
        if (await self._topologies.read(topology.name)).incarnation != topology.incarnation:
            raise Remade(f"topology {topology.name} was made again meanwhile")
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
        await self._server.confirm(keys.topology(topology.name))
        pairs = flat.items() if isinstance(flat, dict) else zip(flat[::2], flat[1::2], strict=True)
        spouts = {name.decode(): _decode(name.decode(), value.decode()) for name, value in pairs}
        self._caches[topology.name] = (self._known_by(topology), spouts)
        return spouts

    async def called_back(self, topology: Topology) -> list[Spout]:
        """Give the spout tasks that have a callback; a change of one raises the topology's version."""
        by, spouts = self._called_back.get(topology.name, (None, []))
        if by != self._known_by(topology):
            spouts = [spout for spout in (await self.read_all(topology)).values() if spout.callback]
            self._called_back[topology.name] = (self._known_by(topology), spouts)
        return spouts

    async def register(self, topology: Topology, names: set[str]) -> dict[str, int]:
        """Give the indexes of spout tasks, making those that are new, with callback null. Raises `Stale`.

        A new one that Redis has no memory for is `NOBODY`: its inits have to be refused.
        """
        return {name: await self._index(topology, name) for name in names}

    async def _index(self, topology: Topology, name: str) -> int:
        try:
            return (await self._registered(topology, name)).index
        except StoreFull:
            return NOBODY

    async def make(self, topology: Topology, name: str, *, ephemeral: bool | None = None) -> tuple[Spout, bool]:
        """Make a spout task, or change it (None: leave as it is); says whether it is new. Idempotent."""
        for _ in attempts(topology):
            try:
                return await self._write(topology, name, ephemeral=ephemeral)
            except Stale as stale:
                topology = await self._topologies.renew(topology, stale)
        raise AssertionError("attempts end by raising")

    async def _registered(self, topology: Topology, name: str) -> Spout:
        """Give a spout task that stays: one that is marked is waited for."""
        spout = self._cached(topology).get(name) or (await self._write(topology, name))[0]
        for _ in range(int(PATIENCE_MS / 1000 / WAIT_S)):
            if not spout.doom:
                return spout
            await asyncio.sleep(WAIT_S)
            await self.read_all(topology)
            spout = (await self._write(topology, name))[0]
        raise StoreUnavailable(f"spout task {name} is being removed, and that takes long")

    async def _write(self, topology: Topology, name: str, *, ephemeral: bool | None = None) -> tuple[Spout, bool]:
        target = [keys.topology(topology.name), keys.spouts(topology.name, topology.incarnation)]
        for _ in range(ATTEMPTS):
            value = await self._server.read("HGET", target[1], name)
            present = _decode(name, value.decode()) if value else None
            wanted = present or Spout(name=name, index=-1)
            if ephemeral is not None:
                wanted = replace(wanted, ephemeral=ephemeral)
            if wanted == present:
                await self._server.confirm(target[0])
                return self._remember(topology, present), False
            args = (topology.pair, name, value or "", wanted.document())
            word, *values = await self._server.call("acker_write_spout_v1", target, *args)
            if word == b"stale":
                raise Stale(target[0], values[0].decode())
            if word == b"ok":
                return self._remember(topology, _decode(name, values[0].decode())), present is None
        raise StoreUnavailable(f"spout task {name} is being changed by too many at once")

    def _cached(self, topology: Topology) -> dict[str, Spout]:
        known_by, spouts = self._caches.get(topology.name, (None, {}))
        return spouts if known_by == self._known_by(topology) else {}

    def _known_by(self, topology: Topology) -> object:
        """What a cache holds for: a version of a topology, on the servers that there are."""
        return topology.pair, self._server.generation

    def _remember(self, topology: Topology, spout: Spout) -> Spout:
        self._caches[topology.name] = (self._known_by(topology), self._cached(topology) | {spout.name: spout})
        return spout


def _decode(name: str, value: str) -> Spout:
    """Read it as it stands in Redis; what a later release knows of it is passed over."""
    index, made, document = value.split(" ", 2)
    known = {member: it for member, it in json.loads(document).items() if member in Spout.__dataclass_fields__}
    callback = known.pop("callback", None)
    registered = read_registered(callback) if callback else None
    return Spout(name=name, index=int(index), made_ms=int(made), callback=registered, **known)
