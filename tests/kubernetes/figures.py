"""What each fault costs the callers of an acker: figures kept beside docs/kubernetes.md, and its table of them."""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.kubernetes.load import KINDS, Load

DOCS = Path(__file__).parents[2] / "docs"
FILE, PAGE = DOCS / "kubernetes-figures.json", DOCS / "kubernetes.md"
COLUMNS = ("fault", *KINDS, "repeated for", "completions lost or early", "all replicas ready after")
HEAD = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one fault cost, from its beginning to the end of the load."""

    fault: str
    requests: dict[str, int]
    """By kind of caller, as the failed ones."""

    failed: dict[str, int]
    again_s: float
    """How long the caller that had to wait longest repeated a failed request, with its key, until it succeeded."""

    lost_or_early: int
    ready_s: float
    """From the fault until every replica that should be was ready."""

    def row(self) -> str:
        """Return its row of the table."""
        cells = [f"{self.failed.get(kind, 0)} of {self.requests[kind]:,}" for kind in KINDS]
        again = f"{self.again_s:.1f} s" if self.failed else ""
        return f"| {' | '.join([self.fault, *cells, again, str(self.lost_or_early), f'{self.ready_s:.0f} s'])} |\n"


def cost(fault: str, load: Load, ready_s: float) -> Cost:
    """Return what callers met, once their load has ended."""
    account = load.account
    return Cost(
        fault=fault,
        requests={kind: account.requests[kind] for kind in KINDS},
        failed=account.failed(),
        again_s=round(account.again_s, 1),
        lost_or_early=len(load.lost()) + len(load.wrong()),
        ready_s=round(ready_s),
    )


def read(file: Path = FILE) -> list[Cost]:
    """Return the figures that are kept; none where there is no file yet."""
    return [Cost(**each) for each in json.loads(file.read_text(encoding="utf-8"))] if file.exists() else []


def write(costs: Iterable[Cost], file: Path = FILE, page: Path = PAGE) -> None:
    """Keep figures, each in the place of those of its fault before, and write the table of all into the page."""
    kept = {each.fault: each for each in [*read(file), *costs]}
    file.write_text(json.dumps([asdict(each) for each in kept.values()], indent=1) + "\n", encoding="utf-8")
    text, found = re.subn(
        rf"{re.escape(HEAD)}(\|.*\n)*", lambda _: table(kept.values()), page.read_text(encoding="utf-8")
    )
    assert found, f"{page.name} has no table that begins with {HEAD}"
    page.write_text(text, encoding="utf-8")


def table(costs: Iterable[Cost]) -> str:
    """Return the table."""
    return HEAD + "".join(each.row() for each in costs)
