"""The functions of the library that keep what operators look up: their acts, and the processes that run.

Each function here describes one call. The keys lie in the slot of the configuration.
"""

from dataclasses import dataclass
from typing import Any

from acker_service.redis import keys
from acker_service.redis.calls import Call, fcall, nothing

NAME = "monitoring"
"""What metrics call all of these: they are few, and each name is ten series of an idle process."""

ACTS_PER_NUMBER_MS = 1_000
"""Numbers of acts to a millisecond: the number of an act, divided by this, is its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedAct:
    """An act as it is stored: its number, which is above those of earlier acts, and its document (JSON)."""

    number: int
    document: bytes

    @property
    def at_ms(self) -> int:
        """When it was noted, in Unix milliseconds."""
        return self.number // ACTS_PER_NUMBER_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedProcess:
    """A process as it is stored: its id, when it was noted last, and its document (JSON)."""

    id: str
    seen_ms: int
    document: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedProcesses:
    """The processes that were noted in the last ten seconds before ``now_ms``."""

    now_ms: int
    processes: list[NotedProcess]


def note_act(document: str) -> Call[None]:
    """Note an act: a JSON object that names its ``topology`` before any text of a caller.

    At most 1,125 of the last 30 days are kept. Beyond that the oldest of the topologies that have most go,
    of each those of the keys that have most.
    """
    return fcall("acker_note_act_v1", (keys.ACTS,), document, decode=nothing, confirm=False, name=NAME)


def read_acts(*, before: int | None, limit: int) -> Call[list[NotedAct]]:
    """Read acts, newest first; with ``before``, only those with a lower number."""
    args = ("" if before is None else before, limit)
    return fcall("acker_read_acts_v1", (keys.ACTS,), *args, decode=_acts, confirm=False, name=NAME)


def note_process(id_: str, document: str) -> Call[None]:
    """Note for ten seconds that a process runs."""
    return fcall("acker_note_process_v1", (keys.PROCESSES,), id_, document, decode=nothing, confirm=False, name=NAME)


def read_processes() -> Call[NotedProcesses]:
    """Read which processes were noted in the last ten seconds."""
    return fcall("acker_read_processes_v1", (keys.PROCESSES,), decode=_processes, confirm=False, name=NAME)


def _acts(reply: list[Any]) -> list[NotedAct]:
    found = (entry.split(b" ", 1) for entry in reply[1:])
    return [NotedAct(number=int(number), document=document) for number, document in found]


def _processes(reply: list[Any]) -> NotedProcesses:
    _, now_ms, *flat = reply
    found = [(id_.decode(), *value.split(b" ", 1)) for id_, value in zip(flat[::2], flat[1::2], strict=True)]
    processes = [NotedProcess(id=id_, seen_ms=int(seen), document=document) for id_, seen, document in found]
    return NotedProcesses(now_ms=now_ms, processes=processes)
