"""Puts the figures of a run into the documentation: `python -m bench.page`, after `make bench` (and `make bench-long`).

It writes docs/figures.json, the tables of docs/figures.md, the plots of docs/images, and what stands between two marks:
in docs/performance.md the table of what matters to a user, the plots, and what is not reached; in docs/capacity.md the
formulas as they fit the long measurements, where all sizes of these are there.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import capacity, goals, long, table
from bench.__main__ import LATEST
from bench.baseline import ROOT
from bench.kept import SIMULATED_SECTION, Kept, store_section
from bench.measure import Series
from bench.sizes import FULL
from bench.table import Line, Result, Skipped
from docs.images import plots

DOCS = ROOT / "docs"
FIGURES = ("<!-- figures of the last run -->", "<!-- end of the figures -->")
FITTED = ("<!-- fitted to the last measurements -->", "<!-- end of what is fitted -->")
Document = dict[str, Any]

PLOTS = {
    "throughput": ("Acks a second, by the size of a batch", "acks in a batch", "acks/s", "log", "log"),
    "cost": ("Redis: CPU µs of an operation, by pending roots", "pending roots", "CPU µs", "log", "even"),
    "bytes": ("Redis: bytes of a pending root, by pending roots", "pending roots", "bytes", "log", "even"),
    "latency": ("A single ack: milliseconds, by the share of acks answered by then", "percent", "ms", "even", "log"),
    "lateness": ("Lateness of timeouts, by how many fall due a second", "timeouts/s", "ms", "log", "log"),
    "outage": ("Timeouts after an outage, by second", "second after it", "timeouts in that second", "even", "even"),
}  # fmt: skip
"""Each plot's title, the labels of its axes, and their kinds."""


_BOUNDS = ("at_most", "at_least", "ratio_at_most", "lowest_ratio_at_most")
_PLAIN_FIELDS = ("group", "what", "unit", "beside", *_BOUNDS, "window")


def read(latest: Path, kept: Kept) -> Document:
    """Read the values of the last run, and the curves of the long measurements of Valkey if there are any.

    Curves go on with the simulated sizes that are larger than all that were emitted.
    """
    document: Document = json.loads(latest.read_text(encoding="utf-8"))
    cases = [(case, taken) for case in long.cases("store", FULL) if (taken := kept.get(case.key))]
    curves = json.loads(table.for_programs(list(long.results("store", cases, kept)), {}))["curves"]
    own = [curve for curve in curves if curve["group"] == store_section()]
    further = {(c["plot"], c["name"]): c["points"] for c in curves if c["group"] == SIMULATED_SECTION}
    for curve in own:
        last = max(across for across, _ in curve["points"])
        more = further.get((curve["plot"], curve["name"]), [])
        curve["points"] += [point for point in more if point[0] > last]
    names = {(curve["plot"], curve["name"]) for curve in own}
    document["curves"] = [c for c in document["curves"] if (c["plot"], c["name"]) not in names] + own
    return document


def write(document: Document, docs: Path = DOCS, fitted: str = "") -> None:
    """Write the figures, the tables, the plots and the pages; ``fitted`` is what the page on capacity gets, if any."""
    (docs / "figures.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (docs / "figures.md").write_text(figures(document), encoding="utf-8")
    for name, drawn in drawings(document).items():
        (docs / "images" / f"bench-{name}.svg").write_text(drawn, encoding="utf-8")
    parts = (_machine(document), _short(document), *_images(document), *_lost(document))
    _fill(docs / "performance.md", FIGURES, "\n\n".join(parts))
    if fitted:
        _fill(docs / "capacity.md", FITTED, fitted)


def _fill(page: Path, marks: tuple[str, str], text: str) -> None:
    """Put text into a page, between its two marks."""
    before, _, rest = page.read_text(encoding="utf-8").partition(marks[0])
    _, found, after = rest.partition(marks[1])
    assert found, f"{page.name} lacks {' or '.join(marks)}"
    page.write_text(f"{before}{marks[0]}\n\n{text}\n\n{marks[1]}{after}", encoding="utf-8")


def figures(document: Document) -> str:
    """Write the page of all lines."""
    head = (
        "# All figures\n\nEvery line of the last `make bench`; [Performance](performance.md) says how to read them.\n\n"
    )
    return f"{head}{_machine(document)}\n\n{table.for_page(results(document))}\n"


def drawings(document: Document) -> dict[str, str]:
    """Draw the plots of which there are points."""
    drawn = {}
    for name, (title, across, up, *kinds) in PLOTS.items():
        lines = [plots.Line(name=c["name"], points=c["points"]) for c in document["curves"] if c["plot"] == name]
        values = [list(map(float, column)) for column in zip(*(p for line in lines for p in line.points), strict=True)]
        if values:
            x, y = (
                (plots.logarithmic if kind == "log" else plots.even)(label, own)
                for label, own, kind in zip((across, up), values, kinds, strict=True)
            )
            drawn[name] = plots.plot(title, x, y, lines).render()
    return drawn


def results(document: Document) -> list[Result]:
    """Read the lines of a document."""
    lines: list[Result] = []
    for own in document["lines"]:
        fields: dict[str, Any] = {name: own[name] for name in _PLAIN_FIELDS if name in own}
        fields |= {name: Series.of(own[name]["values"]) for name in ("measured", "base")}
        lines.append(Line(**fields))
    return lines + [Skipped(**own) for own in document["skipped"]]


def _machine(document: Document) -> str:
    return "; ".join(f"{name}: {value}" for name, value in document["machine"].items()) + "."


def _lines(document: Document) -> list[Line]:
    return [line for line in results(document) if isinstance(line, Line)]


def _short(document: Document) -> str:
    rows = goals.table(results(document), FULL)
    return "\n".join(f"| {' | '.join(row)} |" for row in (goals.COLUMNS, ("---",) * len(goals.COLUMNS), *rows))


def _images(document: Document) -> Iterator[str]:
    for name in drawings(document):
        yield f"![{PLOTS[name][0]}](images/bench-{name}.svg)"


def _lost(document: Document) -> Iterator[str]:
    """Yield which lines are not reached."""
    lost = [line for line in _lines(document) if line.reached is False]
    if lost:
        yield "Not reached in this run:\n\n" + "\n".join(
            f"- *{line.what}*: {table.number(line.measured.median)} {line.unit}, "
            f"{table.number(line.ratio.median)} times {line.beside}; to reach: {line.goal}"
            for line in lost
        )


def main() -> None:
    """Write all of it from the files of the last runs."""
    kept = Kept()
    write(read(LATEST, kept), fitted=capacity.page(kept))


if __name__ == "__main__":
    main()
