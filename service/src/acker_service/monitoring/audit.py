"""Keeps a trail of what operators force or discard: a log line, a metric and an entry in the store for each act."""

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from acker_protocol.errors import ServiceError

from acker_service.metrics.instruments import AuditMetrics
from acker_service.redis import functions
from acker_service.redis.client import RedisClient
from acker_service.redis.functions.monitoring import NotedAct

LEAST_READ = 100
"""Acts that are read at once at least: those of a few topologies may lie far apart."""
_NEVER_SUPPRESSED = {"once": True}
"""Keeps the log from passing over an act that repeats an earlier one."""

_log = logging.getLogger(__name__)


class Act(StrEnum):
    """What somebody did by a request; the value is what metrics, log lines and answers show."""

    TOPOLOGY_DELETED = "topology_deleted"
    SPOUT_TASK_DELETED = "spout_task_deleted"
    COMPLETIONS_DISCARDED = "completions_discarded"
    DEAD_LETTERS_DISCARDED = "dead_letters_discarded"
    DEAD_LETTERS_REPLAYED = "dead_letters_replayed"
    ROOT_FAILED = "root_failed"
    CALLBACK_CHANGED = "callback_changed"
    CALLBACK_PAUSED = "callback_paused"
    CALLBACK_RESUMED = "callback_resumed"
    SECRET_ROTATED = "secret_rotated"  # noqa: S105 - no secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An act that has succeeded: on what, how many things it ended, by which key and request.

    ``key`` is the name of the key. None is what an act has not.
    """

    act: Act
    topology: str
    spout_task: str | None = None
    root_id: str | None = None
    count: int | None = None
    key: str
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActPage:
    """Acts as documents, newest first, and the number of the last one that was read; None: none follows."""

    acts: list[dict[str, Any]]
    last: int | None


class AuditTrail:
    """Notes acts, and reads those that are kept: at most 1,125 of the last 30 days, shared among the topologies."""

    def __init__(self, redis: RedisClient, metrics: AuditMetrics) -> None:
        self._redis = redis
        self._metrics = metrics
        for act in Act:
            metrics.acts[act.value]  # shown at zero from the start

    async def note(self, entry: Entry) -> None:
        """Note an act. Never raises: the act is done, so a store that does not keep it is only logged."""
        named = ("topology", "spout_task", "root_id", "key", "count")
        values = " ".join(f"{name}={'-' if (v := getattr(entry, name)) is None else v}" for name in named)
        _log.info("audit act=%s %s", entry.act.value, values, extra=_NEVER_SUPPRESSED)
        self._metrics.acts[entry.act.value].inc()
        try:
            await self._redis.execute(functions.monitoring.note_act(json.dumps(asdict(entry))))
        except ServiceError as error:
            _log.warning(
                "the store did not keep this act, and GET /v1/audit lacks it: %s", error.detail, extra=_NEVER_SUPPRESSED
            )

    async def page(self, *, before: int | None, limit: int, shows: Callable[[str], bool]) -> ActPage:
        """Read at most ``limit`` acts on topologies that ``shows`` accepts, newest first, below a number."""
        acts: list[dict[str, Any]] = []
        at_once = max(limit, LEAST_READ)
        while True:
            found = await self._redis.execute(functions.monitoring.read_acts(before=before, limit=at_once))
            for noted in found:
                act = _show(noted)
                if shows(act["topology"]):
                    acts.append(act)
                if len(acts) == limit:
                    return ActPage(acts=acts, last=noted.number)
            if len(found) < at_once:
                return ActPage(acts=acts, last=None)
            before = found[-1].number


def _show(noted: NotedAct) -> dict[str, Any]:
    return {"at_ms": noted.at_ms, **json.loads(noted.document)}
