"""What the rules of ``acker doctor`` judge, and what they find."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Document = Mapping[str, Any]
Level = Literal["warning", "trouble"]

MINUTE_MS = 60_000
SILENT_MS = MINUTE_MS
"""A pending root without an ack for so long is read; how long is too long depends on its topology."""

RECENT_MS = 10 * MINUTE_MS
"""How far back ends of roots and refusals count; as the alerts."""

UNREAD_MS = 5 * MINUTE_MS
NEARLY_FULL = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is wrong, by the name of its entry in the runbook; since when (Unix milliseconds), and what to do."""

    rule: str
    level: Level
    what: str
    do: str
    since_at_ms: int | None = None
    topology: str | None = None
    spout_task: str | None = None

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The documents that are judged; what could not be read is missing, and its rules find nothing.

    ``topologies`` are those of ``GET /v1/events``, ``spouts``, ``history`` (10 min), ``silent_roots`` (without an
    ack for `SILENT_MS`) and ``timed_out`` (the last failures with that outcome) are by topology; ``refused`` is the
    problem with which the acker refused the key.
    """

    now_ms: int
    status: Document | None = None
    topologies: Sequence[Document] = ()
    spouts: Mapping[str, Sequence[Document]] = field(default_factory=dict)
    history: Mapping[str, Document] = field(default_factory=dict)
    silent_roots: Mapping[str, Sequence[Document]] = field(default_factory=dict)
    timed_out: Mapping[str, Sequence[Document]] = field(default_factory=dict)
    refused: Document | None = None

    def points(self, topology: str, *, within_ms: int = RECENT_MS) -> list[Document]:
        """Return the points of a topology's history that are not older than this."""
        points = self.history.get(topology, {}).get("points", ())
        return [point for point in points if point["at_ms"] > self.now_ms - within_ms]

    def part(self, name: str) -> Document:
        """Return a part of the status; empty where it is not known."""
        return (self.status or {}).get(name) or {}
