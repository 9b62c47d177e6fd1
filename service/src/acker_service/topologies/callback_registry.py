"""Knows how the callback of a spout task changes, so that every replica hears of it."""

from collections.abc import Callable
from dataclasses import replace

from acker_protocol.errors import SpoutBusy, StoreUnavailable

from acker_service.redis import keys
from acker_service.redis.client import RedisClient
from acker_service.topologies.registration import RegisteredCallback
from acker_service.topologies.registry import MAX_ATTEMPTS, TopologyRegistry
from acker_service.topologies.spouts import Spout, SpoutRegistry
from acker_service.topologies.stamp import Topology

Change = Callable[[RegisteredCallback | None, int], RegisteredCallback | None]
"""Gives the new callback from the present one and the time; what it raises goes to whoever asked for the change."""


class Callbacks:
    """Changes callbacks. A change raises the topology's version, as that of a configuration does."""

    def __init__(self, server: RedisClient, topologies: TopologyRegistry, spouts: SpoutRegistry) -> None:
        self._server, self._topologies, self._spouts = server, topologies, spouts

    async def change(self, topology: str, spout_task: str, change: Change) -> tuple[Spout, Spout]:
        """Change a callback; gives the spout task before and after. Raises `UnknownSpout`, `SpoutBusy`.

        Written only if nobody was faster, and else begun anew. Idempotent if ``change`` is.
        """
        now_ms = await self._topologies.now_ms()
        for _ in range(MAX_ATTEMPTS):
            found = await self._topologies.refresh(topology)
            spout = await self._spouts.read(found, spout_task)
            if spout.deletion:
                raise SpoutBusy(f"spout task {spout_task} is being removed")
            changed = replace(spout, callback=change(spout.callback, now_ms))
            if changed == spout or await self._write(found, spout, changed):
                return spout, changed
        raise StoreUnavailable(f"spout task {spout_task} is being changed by too many at once")

    async def _write(self, topology: Topology, before: Spout, after: Spout) -> bool:
        target = [keys.topology(topology.name), keys.spouts(topology.name, topology.incarnation)]
        args = (topology.stamp, before.name, before.encode(), after.encode())
        word, *_ = await self._server.call("acker_mark_spout_v1", target, *args)
        if word != b"ok":
            return False
        renewed = await self._topologies.refresh(topology.name)
        await self._topologies.stamp_shards(renewed)
        return True
