"""Knows what is delivered together, and what becomes of it after a try."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, takewhile
from typing import Any

from acker_service.delivery.response import DeliveryResult, ResultKind
from acker_service.delivery.schedule import Schedule

EntryId = tuple[int, int]
"""Milliseconds and sequence number of an entry: its name, and how old it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedCompletion:
    """A completion, as its spout task is told it and as it is packed."""

    document: Mapping[str, Any]
    packed: bytes

    @property
    def id(self) -> str:
        """Names the completion."""
        return str(self.document["id"])


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxEntry:
    """An entry of a mailbox that is to be delivered; ``tried`` is how often that was tried.

    Its first ``skipped`` completions were released already.
    """

    shard: int
    entry_id: EntryId
    attempts: int
    completions: Sequence[PackedCompletion]
    skipped: int = 0

    @property
    def name(self) -> str:
        """The entry, as Redis writes it."""
        return f"{self.entry_id[0]}-{self.entry_id[1]}"


class EntryResult(StrEnum):
    """What becomes of an entry."""

    DONE = "done"
    RETRY = "retry"
    DEAD = "dead"
    SENT = "sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What becomes of an entry: tried again at ``at_ms``; ``left`` is what is left of it (empty: all, for a retry)."""

    entry: MailboxEntry
    result: EntryResult
    at_ms: int = 0
    remaining: Sequence[PackedCompletion] = ()


def by_age(entries: Iterable[MailboxEntry]) -> list[MailboxEntry]:
    """Put entries of all shards into one order, oldest first: the same ones are always delivered in the same."""
    return sorted(entries, key=lambda entry: (entry.entry_id, entry.shard))


def select_batch(fresh: Iterable[MailboxEntry], most: int) -> list[MailboxEntry]:
    """Take the oldest entries of all shards, with ``most`` completions together; the first whatever it holds."""
    ordered = by_age(fresh)
    totals = accumulate(len(entry.completions) for entry in ordered)
    fitting = sum(1 for _ in takewhile(lambda total: total <= most, totals))
    return ordered[: max(1, fitting)]


def settle(
    entries: Sequence[MailboxEntry], verdict: DeliveryResult, schedule: Schedule, *, now_ms: int, draw: float
) -> Iterator[Settlement]:
    """Say what becomes of each entry of a batch. What has to be tried again is tried again together."""
    again = frozenset(verdict.retry_ids)
    tried = max(entry.attempts for entry in entries) + 1
    delay_s = schedule.delay_s(tried, draw=draw, at_least_s=verdict.wait_s)
    for entry in entries:
        left = [piece for piece in entry.completions if piece.id in again]
        if not left:
            yield Settlement(entry=entry, result=EntryResult.DONE)
        elif delay_s is None:
            yield Settlement(entry=entry, result=EntryResult.DEAD, remaining=left)
        else:
            rest = left if len(left) < len(entry.completions) else ()
            yield Settlement(
                entry=entry, result=EntryResult.RETRY, at_ms=now_ms + round(delay_s * 1_000), remaining=rest
            )


def succeeded(verdict: DeliveryResult, total: int) -> bool:
    """Whether the receiver took anything."""
    return verdict.kind in (ResultKind.DONE, ResultKind.PART) and len(verdict.retry_ids) < total
