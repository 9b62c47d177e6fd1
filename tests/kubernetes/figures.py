"""What faults and replicas cost, as the tests measure it: figures kept beside docs/kubernetes.md, and its tables."""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

from tests.kubernetes.load import KINDS, Load

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "kubernetes.md"


def _head(*columns: str) -> str:
    return f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one fault cost, from its beginning to the end of the load."""

    HEAD: ClassVar = _head("fault", *KINDS, "repeated for", "completions lost or early", "all replicas ready after")
    FILE: ClassVar = DOCS / "kubernetes-figures.json"

    fault: str
    requests: dict[str, int]
    """By kind of caller, as the failed ones."""

    failed: dict[str, int]
    again_s: float
    """How long the caller that had to wait longest repeated a failed request, with its key, until it succeeded."""

    lost_or_early: int
    ready_s: float
    """From the fault until every replica that should be was ready."""

    @property
    def key(self) -> str:
        """What it is measured of: there is one row of it."""
        return self.fault

    def row(self) -> str:
        """Return its row of the table."""
        cells = [f"{self.failed.get(kind, 0)} of {self.requests[kind]:,}" for kind in KINDS]
        again = f"{self.again_s:.1f} s" if self.failed else ""
        return f"| {' | '.join([self.fault, *cells, again, str(self.lost_or_early), f'{self.ready_s:.0f} s'])} |\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the replicas of the api took for each operation."""

    HEAD: ClassVar = _head("replicas of the api", "connections", "operations", "CPU of the api for each")
    FILE: ClassVar = DOCS / "kubernetes-usage.json"

    replicas: int
    connections: int
    operations: int
    cpu_us: int
    """Processor time of all replicas for an operation, in microseconds."""

    @property
    def key(self) -> str:
        """What it is measured of: there is one row of it."""
        return str(self.replicas)

    def row(self) -> str:
        """Return its row of the table."""
        return f"| {self.replicas} | {self.connections} | {self.operations:,} | {self.cpu_us} µs |\n"


Figure = TypeVar("Figure", bound=Cost | Usage)


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


def read(kind: type[Figure], file: Path | None = None) -> list[Figure]:
    """Return the figures of a kind that are kept; none where there is no file yet."""
    file = file or kind.FILE
    return [kind(**each) for each in json.loads(file.read_text(encoding="utf-8"))] if file.exists() else []


def write(kind: type[Figure], figures: Iterable[Figure], file: Path | None = None, page: Path = PAGE) -> None:
    """Keep figures, each in the place of the one with its key before, and write the table of all into the page."""
    file = file or kind.FILE
    kept = {each.key: each for each in [*read(kind, file), *figures]}
    file.write_text(json.dumps([asdict(each) for each in kept.values()], indent=1) + "\n", encoding="utf-8")
    text, found = re.subn(
        rf"{re.escape(kind.HEAD)}(\|.*\n)*", lambda _: table(kind, kept.values()), page.read_text(encoding="utf-8")
    )
    assert found, f"{page.name} has no table that begins with {kind.HEAD}"
    page.write_text(text, encoding="utf-8")


def table(kind: type[Figure], figures: Iterable[Figure]) -> str:
    """Return the table."""
    return kind.HEAD + "".join(each.row() for each in figures)
