"""Knows what the spout was told: how many roots were acked, failed and timed out, and an example of each replay."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acker_client import Completion


@dataclass(frozen=True, slots=True, kw_only=True)
class Ill:
    """What once became of a line other than being acked."""

    line: int
    attempt: int
    outcome: str
    reason: str | None
    component: str | None


class Journal:
    """The completions of one run."""

    def __init__(self) -> None:
        self._told = dict.fromkeys(("acked", "failed", "timed_out"), 0)
        self._ills: dict[int, list[Ill]] = {}
        self._cured: list[Ill] = []

    def note(self, done: "Completion", *, line: int, attempt: int) -> None:
        """Take note of a completion; a line that is acked is cured of what befell it before."""
        self._told[done.outcome.value] += 1
        if done.acked:
            self._cured += self._ills.pop(line, [])
            return
        ill = Ill(line=line, attempt=attempt, outcome=done.outcome.value, reason=done.reason, component=done.component)
        self._ills.setdefault(line, []).append(ill)

    def progress(self, *, pending: int, waiting: int) -> dict[str, int]:
        """Give the figures of the moment."""
        replayed = self._told["failed"] + self._told["timed_out"]
        return {**self._told, "replayed": replayed, "pending": pending, "waiting": waiting}

    def story(self) -> dict[str, Any]:
        """Give what the proof needs: how many lines were acked, and what those that were replayed had been through."""
        return {"acked": self._told["acked"], "cured": [asdict(ill) for ill in self._cured]}
