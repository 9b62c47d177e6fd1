"""Selects the completions of one delivery, and decides when a failed one is retried or becomes a dead letter."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, takewhile

from acker_service.delivery.response import DeliveryResult, ResultKind
from acker_service.redis.completion_codec import UNICODE, CompletionDocuments, PackedCompletions

JITTER = 0.2
"""Each delay varies by up to a fifth in both directions: deliveries that failed together do not retry together."""

MAX_DELAYS = 100
MAX_DELAY_S = 7 * 86_400.0

_DELAY = re.compile(r"[0-9]{1,9}(\.[0-9]{1,3})?", re.ASCII)

EntryId = tuple[int, int]
"""Milliseconds and sequence number of a mailbox entry, as in a Redis stream; entries sort by age."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The delays in seconds before the second attempt, the third, and so on."""

    delays_s: tuple[float, ...] = (1, 5, 30, 120, 600, 1_800, 7_200, 18_000, 36_000, 36_000)

    @property
    def max_attempts(self) -> int:
        """The number of attempts before a completion becomes a dead letter."""
        return len(self.delays_s) + 1

    def delay_s(self, attempts: int, *, draw: float, at_least_s: float = 0.0) -> float | None:
        """Return the seconds until the next attempt after ``attempts`` of them (1 or more); None after the last.

        ``draw`` is a random number from 0 to 1, ``at_least_s`` the delay that the receiver asked for.
        """
        if attempts >= self.max_attempts:
            return None
        return max(self.delays_s[attempts - 1] * (1 + JITTER * (2 * draw - 1)), at_least_s)


DEFAULT_SCHEDULE = Schedule()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryConfig:
    """How the completions of a spout task are batched, leased and retried."""

    max_batch: int = 500
    """Completions in one request or message."""
    linger_s: float = 0.02
    """How long a batch that is not full waits for further completions."""
    lease_ms: int = 35_000
    """How long a worker holds the lease of a mailbox; longer than one request may take."""
    pause_after_ms: int = 86_400_000
    """A webhook without a success for this long is paused."""
    schedule: Schedule = DEFAULT_SCHEDULE


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxEntry:
    """An entry of a mailbox that is to be delivered."""

    shard: int
    entry_id: EntryId
    attempts: int
    """Failed attempts so far."""
    completions: PackedCompletions
    """The completions that were not released yet."""
    incarnation: str
    """The incarnation of the topology; the ids of the completions depend on it."""
    skipped: int = 0
    """Completions at the beginning of the entry that were released already."""

    @property
    def name(self) -> str:
        """The entry id in Redis's notation."""
        return f"{self.entry_id[0]}-{self.entry_id[1]}"

    def write(self, into: CompletionDocuments | None = None) -> CompletionDocuments:
        """Write the completions as JSON, behind others if ``into`` holds some."""
        return self.completions.write(self.incarnation, UNICODE, into)


class EntryResult(StrEnum):
    """The outcome of a delivery for one entry."""

    DONE = "done"
    RETRY = "retry"
    DEAD = "dead"
    SENT = "sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """How one entry is settled after a delivery."""

    entry: MailboxEntry
    result: EntryResult
    at_ms: int = 0
    """When a `RETRY` is due."""
    remaining: Sequence[str] = ()
    """The ids of the completions that are retried or dead; empty for a `RETRY` of the whole entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """The time after a batch in which its worker needs no lease: nothing is due, or the receiver is left alone."""

    backoff_s: float = 0.0
    """For so long no worker sends anything."""
    due_ms: int | None = None
    """When the next retry is due, if any."""


def read_schedule(text: str) -> Schedule:
    """Parse delays in seconds, separated by commas. Raises ``ValueError``."""
    delays = tuple(_delay(entry.strip()) for entry in text.split(","))
    if len(delays) > MAX_DELAYS:
        raise ValueError(f"a schedule has at most {MAX_DELAYS} delays")
    return Schedule(delays_s=delays)


def by_age(entries: Iterable[MailboxEntry]) -> list[MailboxEntry]:
    """Sort entries of all shards, oldest first. The same entries always get the same order."""
    return sorted(entries, key=lambda entry: (entry.entry_id, entry.shard))


def select_batch(untried: Iterable[MailboxEntry], max_completions: int) -> list[MailboxEntry]:
    """Select the oldest entries with at most ``max_completions``; the first one always, whatever its size."""
    ordered = by_age(untried)
    totals = accumulate(len(entry.completions) for entry in ordered)
    fitting = sum(1 for _ in takewhile(lambda total: total <= max_completions, totals))
    return ordered[: max(1, fitting)]


def plan_settlements(
    entries: Sequence[MailboxEntry], result: DeliveryResult, schedule: Schedule, *, now_ms: int, draw: float
) -> Iterator[Settlement]:
    """Decide how each entry of a batch is settled. Completions that failed together are retried together."""
    retry_ids = frozenset(result.retry_ids)
    attempts = max(entry.attempts for entry in entries) + 1
    delay_s = schedule.delay_s(attempts, draw=draw, at_least_s=result.wait_s)
    for entry in entries:
        failed = [name for name in entry.write().ids if name in retry_ids] if retry_ids else []
        if not failed:
            yield Settlement(entry=entry, result=EntryResult.DONE)
        elif delay_s is None:
            yield Settlement(entry=entry, result=EntryResult.DEAD, remaining=failed)
        else:
            remaining = failed if len(failed) < len(entry.completions) else ()
            at_ms = now_ms + round(delay_s * 1_000)
            yield Settlement(entry=entry, result=EntryResult.RETRY, at_ms=at_ms, remaining=remaining)


def backoff_s(result: DeliveryResult, schedule: Schedule, *, failures: int) -> float:
    """Return for how long a receiver is left alone after a result that followed ``failures`` failures in a row."""
    return max(result.wait_s, schedule.delays_s[0] if failures > 1 else 0.0)


def succeeded(result: DeliveryResult, total: int) -> bool:
    """Whether the receiver took at least one of ``total`` completions."""
    return result.kind in (ResultKind.DONE, ResultKind.PART) and len(result.retry_ids) < total


def _delay(entry: str) -> float:
    seconds = float(entry) if _DELAY.fullmatch(entry) else 0.0
    if not 0 < seconds <= MAX_DELAY_S:
        raise ValueError(f"a schedule is of seconds above 0, up to {MAX_DELAY_S:.0f}, and commas: 1,5,30")
    return seconds
