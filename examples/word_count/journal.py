"""Counts the outcomes of a run, and keeps which lines failed or timed out and were acked later."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acker_client import Completion


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """An attempt at a line that failed or timed out."""

    line: int
    attempt: int
    outcome: str
    reason: str | None
    component: str | None


class Journal:
    """The completions of one run."""

    def __init__(self) -> None:
        self._told = dict.fromkeys(("acked", "failed", "timed_out"), 0)
        self._failures: dict[int, list[FailedAttempt]] = {}
        self._recovered: list[FailedAttempt] = []

    def note(self, done: "Completion", *, line: int, attempt: int) -> None:
        """Count a completion; when a line is acked, its earlier failed attempts have recovered."""
        self._told[done.outcome.value] += 1
        if done.acked:
            self._recovered += self._failures.pop(line, [])
            return
        failure = FailedAttempt(
            line=line, attempt=attempt, outcome=done.outcome.value, reason=done.reason, component=done.component
        )
        self._failures.setdefault(line, []).append(failure)

    def progress(self, *, pending: int, waiting: int) -> dict[str, int]:
        """Return the figures of the moment."""
        replayed = self._told["failed"] + self._told["timed_out"]
        return {**self._told, "replayed": replayed, "pending": pending, "waiting": waiting}

    def summary(self) -> dict[str, Any]:
        """Return what the proof needs: how many lines were acked, and the failed attempts that were replayed."""
        return {"acked": self._told["acked"], "recovered": [asdict(failure) for failure in self._recovered]}
