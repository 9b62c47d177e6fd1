"""Reads how the acker is: its store, the processes that share it, and the load of this one."""

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from acker_protocol.errors import ServiceError
from acker_protocol.redis_url import without_login

from acker_service.metrics.instruments import HttpMetrics
from acker_service.monitoring.backpressure import Backpressure
from acker_service.monitoring.processes import ProcessList
from acker_service.monitoring.snapshot import fullest
from acker_service.redis import functions
from acker_service.redis.calls import Call
from acker_service.redis.client import RedisClient
from acker_service.redis.functions.monitoring import NotedProcesses
from acker_service.redis.requirements import ServerRequirements

TIMEOUT_S = 1.0
"""Seconds that Redis has to answer; then it counts as away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """How Redis is; what only Redis knows is None while it does not answer.

    ``full`` is whether this process refuses new roots, ``used_bytes`` that of the fullest server, ``max_bytes`` its
    limit (None: no limit), ``early_max_bytes`` what the early roots of each topology may take, ``remembered_max_bytes``
    what its remembered edges and requests may take, ``ticked`` whether a worker ended overdue roots in the last ten
    seconds.
    """

    url: str
    up: bool = False
    full: bool
    server: str | None = None
    used_bytes: int | None = None
    max_bytes: int | None = None
    early_max_bytes: int
    remembered_max_bytes: int
    durability: str
    ticked: bool | None = None
    warnings: list[str] = field(default_factory=list)


class StatusReader:
    """Reads the status; answers within about a second, also without Redis."""

    def __init__(
        self,
        redis: RedisClient,
        requirements: ServerRequirements,
        backpressure: Backpressure,
        processes: ProcessList,
        metrics: HttpMetrics,
        *,
        durability: str,
    ) -> None:
        self._redis = redis
        self._requirements = requirements
        self._backpressure = backpressure
        self._processes = processes
        self._metrics = metrics
        self._durability = durability

    async def read(self) -> dict[str, Any]:
        """Read the status as a document, without the settings and the keys. Never raises."""
        facts: dict[str, Any] = {}
        noted = NotedProcesses(now_ms=int(time.time() * 1_000), processes=[])
        with contextlib.suppress(ServiceError, TimeoutError):
            async with asyncio.timeout(TIMEOUT_S):
                noted, facts = await self._ask_store()
        store = StoreStatus(
            url=without_login(self._redis.url),
            full=self._backpressure.is_store_full,
            early_max_bytes=self._backpressure.early_max_bytes,
            remembered_max_bytes=self._backpressure.remembered_max_bytes,
            durability=self._durability,
            **facts,
        )
        own, seen = self._processes.own, self._processes.seen(noted)
        return {
            "version": own.version,
            "role": own.role,
            "started_at_ms": own.started_at_ms,
            "now_ms": noted.now_ms,
            "store": asdict(store),
            "processes": seen.processes,
            "load": self._metrics.load() | {"overloaded_recently_at_ms": seen.overloaded_at_ms},
        }

    async def _ask_store(self) -> tuple[NotedProcesses, dict[str, Any]]:
        """Read the notes of processes, and what is known of the store. Raises `ServiceError`."""
        calls: list[Call[Any]] = [self._processes.read(), functions.topologies.worker_seen()]
        (noted, ticked), infos = await asyncio.gather(
            self._redis.execute_each(calls), self._redis.on_any_server("INFO")
        )
        used_bytes, max_bytes = fullest(infos)
        return noted, {
            "up": True,
            "server": _describe_servers(infos),
            "used_bytes": used_bytes,
            "max_bytes": max_bytes or None,
            "ticked": ticked,
            "warnings": await self._requirements.warnings(infos),
        }


def _describe_servers(infos: Sequence[Mapping[str, Any]]) -> str:
    """Return the name and the version of the servers, each once."""
    described = (f"{_server_name(info)} {info.get(f'{_server_name(info)}_version', '')}".rstrip() for info in infos)
    return ", ".join(dict.fromkeys(described))


def _server_name(info: Mapping[str, Any]) -> str:
    """Return what a server calls itself; Redis does not say its name."""
    return str(info.get("server_name", "redis"))
