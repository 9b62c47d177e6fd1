"""Results of long runs, each kept as docs/trust/runs/NAME.json, of which docs/trust.md is made.

Every file has ``run``, which `Run` makes: the ``command`` that repeats it, the ``date``, ``took_s``, the ``commit``
(with ``+`` where files had changed), the ``machine``, and the ``seed`` (null: it has none). Besides:

``model``       ``searches``: of each ``scenario``, ``faults``, ``time_passes``, ``worlds``, ``steps``, ``cpu_s``, and
                of a known mistake ``broken``, the promise, and ``story_steps``. ``memory_mib``.
``model-long``  likewise.
``faults``      the long run of `make faults-long`: ``faults`` (kind: how many), ``clients`` (kind: how many processes),
                ``stores`` (kind: how many faults), ``operations``, ``roots``, ``lost``, ``early``, ``twice``,
                ``not_linearizable``, ``premature`` (timeouts before their deadline), ``latest_timeout_s`` (the latest
                one in normal operation, after its deadline), ``rounds``, ``rounds_with_own_clocks`` and
                ``clocks_stepped_by_s``. Further fields are kept and not shown.
``soak``        ``minutes``, ``rate`` (operations a second), and what was measured after a third (``first``), at the end
                (``last``) and ``when_all_has_ended``; ``keys_left``, and ``grown``: what grew.
``mutations``   ``made`` and ``noticed``: how many rules were broken, by file; ``unnoticed``: those that no test
                noticed.
``fuzz``        ``targets``: of each its ``inputs``, ``seconds``, ``corpus`` (inputs that are kept), ``engine`` and
                ``findings``.
``timing``      ``comparisons``: of each ``what``, ``pairs``, ``first_ns`` and ``last_ns`` (medians with the first or
                the last byte wrong), ``t``, ``seen_ns`` (the least difference that would be seen) and ``is_control``.
``dependencies`` ``packages``: how many the bill of materials names; ``audit``: how many of them are ``known`` to the
                registry that was asked, their ``vulnerabilities``, and the ``error`` that kept it from being asked.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.baseline import git
from bench.machine import machine

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "runs"

_MACHINE = ("processors", "memory", "system", "store", "python")


def commit() -> str:
    """Return the commit of the files, with ``+`` where one of them has changed since; empty outside of a clone."""
    named = git("rev-parse", "--short=8", "HEAD").decode().strip()
    return named + "+" * bool(git("status", "--porcelain", "--untracked-files=no"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run that has begun: what repeats it, and where and when it is made."""

    command: str
    seed: int | None = None
    commit: str = field(default_factory=commit)
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    began_s: float = field(default_factory=time.monotonic)

    def document(self, *, took_s: float | None = None) -> dict[str, Any]:
        """Describe the run as it is now; ``took_s`` is what it took where it was stopped and went on."""
        own = machine()
        return {
            "command": self.command,
            "date": f"{self.began:%Y-%m-%d}",
            "took_s": round(time.monotonic() - self.began_s if took_s is None else took_s, 1),
            "seed": self.seed,
            "commit": self.commit,
            "machine": {name: own[name] for name in _MACHINE},
        }


class Progress:
    """What a run has done so far, in a file, so that it goes on where it was stopped as long as its code is the same.

    ``done`` has the parts that are done by name, and ``took_s`` is what they took together.
    """

    def __init__(self, file: Path, code: Sequence[str]) -> None:
        self._file = file
        self._code = git("rev-parse", *(f"HEAD:{part}" for part in code)).decode().split()
        known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        is_known = (
            bool(self._code) and known.get("code") == self._code and not git("diff", "HEAD", "--stat", "--", *code)
        )
        self.done: dict[str, Any] = known["done"] if is_known else {}
        self.took_s: float = known["took_s"] if is_known else 0.0

    def add(self, name: str, part: Mapping[str, Any], *, took_s: float) -> None:
        """Note a part that is done, in the place of the one of its name."""
        self.done[name] = dict(part)
        self.took_s += took_s
        self._file.parent.mkdir(parents=True, exist_ok=True)
        document = {"code": self._code, "took_s": self.took_s, "done": self.done}
        self._file.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")


def keep(name: str, run: Mapping[str, Any], result: Mapping[str, Any], folder: Path = RESULTS) -> None:
    """Keep a result in the place of the one before."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"run": run, **result}, indent=1, ensure_ascii=False)
    (folder / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")


def read(name: str, folder: Path = RESULTS) -> dict[str, Any] | None:
    """Return a result that is kept; None where the run has not been made."""
    file = folder / f"{name}.json"
    if not file.exists():
        return None
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return document
