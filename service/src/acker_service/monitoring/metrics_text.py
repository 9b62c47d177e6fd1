"""Writes the metrics of the acker for all who ask, once a second."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence

from acker_service.metrics.metrics import Form, Metrics
from acker_service.metrics.store_collector import StoreStats
from acker_service.monitoring.backpressure import Backpressure
from acker_service.monitoring.snapshot import StoreMonitor

Gather = Callable[[bytes], Awaitable[Sequence[bytes]]]
"""Takes a snapshot of this process's metrics, and gives those of all processes that serve its address."""

INTERVAL_S = 1.0
"""Seconds between two texts of a form at least: a text of many topologies takes a tenth of a second of a processor."""


class MetricsText:
    """Writes texts; all requests that wait for the next one share it."""

    def __init__(self, monitor: StoreMonitor, backpressure: Backpressure, metrics: Metrics) -> None:
        self._monitor = monitor
        self._backpressure = backpressure
        self._metrics = metrics
        self._next: dict[Form, asyncio.Task[bytes]] = {}
        self._writing = {form: asyncio.Lock() for form in Form}
        self._written_at = dict.fromkeys(Form, -math.inf)

    async def read(self, form: Form, gather: Gather | None) -> bytes:
        """Return the next text, which shows all that was counted before this call; without a store, only the acker.

        ``gather`` None: this process serves alone. Raises the errors of ``gather``.
        """
        text = self._next.get(form)
        if text is None or text.done():
            text = self._next[form] = asyncio.create_task(self._write_when_due(form, gather))
        return await asyncio.shield(text)

    async def _write_when_due(self, form: Form, gather: Gather | None) -> bytes:
        async with self._writing[form]:
            # rule: a text is written an interval after the one before
            await asyncio.sleep(self._written_at[form] + INTERVAL_S - time.monotonic())
            # rule: who asks while a text is written waits for the next one, because this one may lack what they know of
            self._next.pop(form)
            try:
                return await self._write(form, gather)
            finally:
                self._written_at[form] = time.monotonic()

    async def _write(self, form: Form, gather: Gather | None) -> bytes:
        stats = await self._store_stats()
        snapshots = None if gather is None else await gather(self._metrics.snapshot())
        return await asyncio.to_thread(self._metrics.write, form, stats, snapshots)

    async def _store_stats(self) -> StoreStats | None:
        """Return the statistics of the store as of the latest snapshot; None if it does not answer. Never raises."""
        snapshot = await self._monitor.latest()
        if snapshot is None:
            return None
        return StoreStats(
            used_bytes=snapshot.used_bytes,
            max_bytes=snapshot.max_bytes,
            is_full=self._backpressure.is_store_full,
            worker_seen=snapshot.worker_seen,
            topologies={topology.name: counts.topology_stats for topology, counts in snapshot.topologies},
        )
