"""Notes in Redis that this process runs, and lists the processes that do."""

import asyncio
import json
import logging
import os
import secrets
import socket
import time
from dataclasses import asdict, dataclass
from typing import Any

from acker_service import VERSION
from acker_service.background import cancel_and_wait, periodically
from acker_service.metrics.instruments import HttpMetrics
from acker_service.redis import functions
from acker_service.redis.calls import Call
from acker_service.redis.client import RedisClient
from acker_service.redis.functions.monitoring import NotedProcesses

NOTE_INTERVAL_S = 4.0
"""Seconds between two notes: two fit into the time that one holds, so that one may fail."""

_OVERLOADED = "overloaded_at_ms"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """A process of the acker; ``id`` is drawn when it starts, ``role`` is all, api or worker."""

    id: str
    role: str
    version: str
    host: str
    pid: int
    started_at_ms: int

    @classmethod
    def own(cls, role: str) -> "ProcessRecord":
        """Describe this process, which starts now."""
        return cls(
            id=secrets.token_hex(4),
            role=role,
            version=VERSION,
            host=socket.gethostname(),
            pid=os.getpid(),
            started_at_ms=int(time.time() * 1_000),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenProcesses:
    """The documents of the processes that were seen lately, this one among them, the oldest first.

    ``overloaded_at_ms`` is when one of them refused a request over a limit last; None for never.
    """

    processes: list[dict[str, Any]]
    overloaded_at_ms: int | None


class ProcessList:
    """Notes this process, and reads what others have noted: all that use the same Redis."""

    def __init__(self, redis: RedisClient, metrics: HttpMetrics, *, role: str) -> None:
        self.own = ProcessRecord.own(role)
        self._redis = redis
        self._metrics = metrics
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to note that this process runs."""
        loop = periodically(self.note, interval=NOTE_INTERVAL_S, name="the note of this process", log=_log)
        self._task = asyncio.create_task(loop)

    async def stop(self) -> None:
        """Stop; the last note holds for ten seconds."""
        if self._task is not None:
            await cancel_and_wait(self._task)

    async def note(self) -> None:
        """Note for ten seconds that this process runs, and when it refused a request over a limit last."""
        noted = asdict(self.own) | {_OVERLOADED: self._metrics.overloaded_at_ms}
        await self._redis.execute(functions.monitoring.note_process(noted.pop("id"), json.dumps(noted)))

    def read(self) -> Call[NotedProcesses]:
        """Describe the call that reads what processes have noted; `seen` takes its reply."""
        return functions.monitoring.read_processes()

    def seen(self, noted: NotedProcesses) -> SeenProcesses:
        """Return what was noted as documents, with this process as it is now."""
        documents = {one.id: {**json.loads(one.document), "seen_at_ms": one.seen_ms} for one in noted.processes}
        own = asdict(self.own)
        documents[own.pop("id")] = own | {
            "seen_at_ms": noted.now_ms,
            _OVERLOADED: self._metrics.overloaded_at_ms,
        }
        refused = [at_ms for one in documents.values() if (at_ms := one.pop(_OVERLOADED)) is not None]
        found = [{"id": id_, **document} for id_, document in documents.items()]
        found.sort(key=lambda one: (one["started_at_ms"], one["id"]))
        return SeenProcesses(processes=found, overloaded_at_ms=max(refused, default=None))
