"""Knows the spout tasks of topologies: their indexes, by name and back."""

import json
from dataclasses import dataclass
from typing import Any

from acker_protocol.problems import StoreUnavailable, UnknownSpout

from acker_service.store import keys
from acker_service.store.server import Server
from acker_service.store.topologies import ATTEMPTS, Stale, Topologies, Topology, attempts


@dataclass(frozen=True, slots=True, kw_only=True)
class Spout:
    """A spout task. ``index`` stands for its name in records and mailbox keys and is never used again."""

    name: str
    index: int
    callback: dict[str, Any] | None = None
    ephemeral: bool = False

    def public(self) -> dict[str, Any]:
        """What callers see of it, besides its counts."""
        return {"spout_task": self.name, "callback": self.callback, "ephemeral": self.ephemeral}


class Spouts:
    """Reads and registers spout tasks, with a cache: what a name stands for never changes within an incarnation."""

    def __init__(self, server: Server, topologies: Topologies) -> None:
        self._server, self._topologies = server, topologies
        self._by_name: dict[tuple[str, str], dict[str, Spout]] = {}

    async def get(self, topology: Topology, name: str) -> Spout:
        """Give a spout task. Raises `UnknownSpout`."""
        spout = self._cached(topology).get(name) or (await self.read_all(topology)).get(name)
        if spout is None:
            raise UnknownSpout(f"topology {topology.name} has no spout task {name}")
        return spout

    async def named(self, topology: Topology, index: int) -> str:
        """Give the name that an index stands for; empty if it was removed."""
        for spouts in (self._cached(topology), await self.read_all(topology)):
            for spout in spouts.values():
                if spout.index == index:
                    return spout.name
        return ""

    async def read_all(self, topology: Topology) -> dict[str, Spout]:
        """Read all spout tasks of a topology, by name."""
        flat = await self._server.command("HGETALL", keys.spouts(topology.name, topology.incarnation))
        pairs = flat.items() if isinstance(flat, dict) else zip(flat[::2], flat[1::2], strict=True)
        spouts = {name.decode(): _decode(name.decode(), value.decode()) for name, value in pairs}
        self._by_name[topology.name, topology.incarnation] = spouts
        return spouts

    async def register(self, topology: Topology, names: set[str]) -> dict[str, int]:
        """Give the indexes of spout tasks, making those that are new, with callback null. Raises `Stale`."""
        return {name: (await self._registered(topology, name)).index for name in names}

    async def make(self, topology: Topology, name: str) -> tuple[Spout, bool]:
        """Make a spout task with callback null, or leave it as it is; says whether it is new. Idempotent."""
        for _ in attempts(topology):
            try:
                return await self._write(topology, name)
            except Stale as stale:
                topology = await self._topologies.renew(topology, stale)
        raise AssertionError("attempts end by raising")

    async def _registered(self, topology: Topology, name: str) -> Spout:
        return self._cached(topology).get(name) or (await self._write(topology, name))[0]

    async def _write(self, topology: Topology, name: str) -> tuple[Spout, bool]:
        target = [keys.topology(topology.name), keys.spouts(topology.name, topology.incarnation)]
        document = json.dumps({"callback": None, "ephemeral": False})
        for _ in range(ATTEMPTS):
            word, value = b"found", await self._server.command("HGET", target[1], name)
            if value is None:
                args = (topology.pair, name, "", document)
                word, *values = await self._server.call("acker_write_spout_v1", target, *args)
                value = values[0] if values else None
            if word == b"stale":
                raise Stale(target[0], value.decode())
            if value is not None:
                spout = self._cached(topology)[name] = _decode(name, value.decode())
                return spout, word == b"ok"
        raise StoreUnavailable(f"spout task {name} is being changed by too many at once")

    def _cached(self, topology: Topology) -> dict[str, Spout]:
        return self._by_name.setdefault((topology.name, topology.incarnation), {})


def _decode(name: str, value: str) -> Spout:
    index, document = value.split(" ", 1)
    return Spout(name=name, index=int(index), **json.loads(document))
