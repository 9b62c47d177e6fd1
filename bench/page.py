"""Puts the figures of a run into the documentation: `python -m bench.page`, after `make bench` (and `make bench-long`).

It writes docs/figures.json, the tables of docs/figures.md, the plots of docs/images, and in docs/performance.md what
stands between two marks: the table of what matters to a user, the plots, and what is not reached.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import long, table
from bench.__main__ import LATEST
from bench.baseline import NAME, ROOT
from bench.measure import Series
from bench.sizes import FULL
from bench.table import Line, Result, Skipped
from docs.images import plots

DOCS = ROOT / "docs"
BEGIN, END = "<!-- figures of the last run -->", "<!-- end of the figures -->"
Document = dict[str, Any]

SHOWN = (
    ("a single ack, 32 connections", "single", "the service, a single ack, 32 connections"),
    ("its 99th percentile", "single", "p99 of a single ack, 32 connections"),
    ("an operation, packed, 1,000 a batch", "batches", "the service, an operation, packed, beyond the idle service"),
    ("an operation, JSON, 1,000 a batch", "batches", "the service, an operation, JSON, beyond the idle service"),
    ("Redis, an init, a million pending", "redis", f"an init, 1,000,000 pending, beside {NAME}"),
    ("Redis, an ack", "redis", f"an ack, 1,000,000 pending, beside {NAME}"),
    ("Redis, a last ack", "redis", f"a last ack, and what forgets it, 1,000,000 pending, beside {NAME}"),
    ("memory, a pending root", "memory", "a pending root, at 1,000,000"),
    ("memory, a finished root", "memory", "a finished root, at 1,000,000"),
    ("the Python client, an ack, folded", "client", "the client, an ack, 1,000 of a root"),
    ("the same, not folded", "client", "the client, an ack, each of another root"),
    ("completions by pull", "delivery", "completions in a second of the service's processor, by pull"),
    ("completions by webhook", "delivery", "completions in a second of the service's processor, by webhook"),
    ("lateness of a timeout in a wave", "timeouts", "p99 of the lateness of 200,000 timeouts within 10 s"),
    ("a task of Dramatiq, each ack flushed", "peers", "a task of Dramatiq, Acker, safe, above the untracked task"),
    ("a task of Dramatiq, folded", "peers", "a task of Dramatiq, Acker, folded, above the untracked task"),
    ("a root of spout, split and ten counts", "tree", "a root of 12 operations: client, service and Redis"),
    ("Spark, the realistic job, batch level", "spark", "the realistic job, batch level, as a multiple"),
    ("the same, row level", "spark", "the realistic job, row level, as a multiple"),
)  # fmt: skip
"""What matters to a user: how the table calls it, the group and the name of its line."""

PLOTS = {
    "throughput": ("Acks a second, by the size of a batch", "acks in a batch", "acks/s", "log", "log"),
    "cost": ("Redis: CPU µs of an operation, by pending roots", "pending roots", "CPU µs", "log", "even"),
    "bytes": ("Redis: bytes of a pending root, by pending roots", "pending roots", "bytes", "log", "even"),
    "latency": ("A single ack: milliseconds, by the share of acks answered by then", "percent", "ms", "even", "log"),
    "lateness": ("Lateness of timeouts, by how many fall due a second", "timeouts/s", "ms", "log", "log"),
}  # fmt: skip
"""Each plot's title, the labels of its axes, and their kinds."""


_PLAIN_FIELDS = ("group", "what", "unit", "beside", "at_most", "at_least", "ratio_at_most")


def read(latest: Path, kept: Path) -> Document:
    """Read the values of the last run, and the curves of the long measurements of Valkey if there are any."""
    document: Document = json.loads(latest.read_text(encoding="utf-8"))
    if kept.exists():
        found = long.Kept(kept)
        own = [(case, taken) for case in long.cases("store", FULL) if (taken := found.get(case))]
        section = f"{long.STORES[0]}, timeouts of a week, append-only file off"
        more = json.loads(table.for_programs(list(long.results("store", own)), {}))["curves"]
        replaced = [curve for curve in more if curve["group"] == section]
        names = {(curve["plot"], curve["name"]) for curve in replaced}
        document["curves"] = [c for c in document["curves"] if (c["plot"], c["name"]) not in names] + replaced
    return document


def write(document: Document, docs: Path = DOCS) -> None:
    """Write the figures, the tables, the plots and the page."""
    (docs / "figures.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (docs / "figures.md").write_text(figures(document), encoding="utf-8")
    for name, drawn in drawings(document).items():
        (docs / "images" / f"bench-{name}.svg").write_text(drawn, encoding="utf-8")
    page = docs / "performance.md"
    page.write_text(filled(page.read_text(encoding="utf-8"), document), encoding="utf-8")


def figures(document: Document) -> str:
    """Write the page of all lines."""
    head = (
        "# All figures\n\nEvery line of the last `make bench`; [Performance](performance.md) says how to read them.\n\n"
    )
    return f"{head}{_machine(document)}\n\n{table.for_page(results(document))}\n"


def filled(page: str, document: Document) -> str:
    """Put the figures into a page, between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    assert found, f"the page lacks {BEGIN} or {END}"
    parts = (BEGIN, _machine(document), _short(document), *_images(document), *_lost(document), END)
    return before + "\n\n".join(part for part in parts if part) + after


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
        fields: dict[str, Any] = {name: own[name] for name in _PLAIN_FIELDS}
        fields |= {name: Series.of(own[name]["values"]) for name in ("measured", "base")}
        lines.append(Line(**fields))
    return lines + [Skipped(**own) for own in document["skipped"]]


def _machine(document: Document) -> str:
    return "; ".join(f"{name}: {value}" for name, value in document["machine"].items()) + "."


def _lines(document: Document) -> list[Line]:
    return [line for line in results(document) if isinstance(line, Line)]


def _short(document: Document) -> str:
    found = {(line.group, line.what): line for line in _lines(document)}
    rows = ["| what | measured | beside | ratio | to reach |", "| --- | --- | --- | --- | --- |"]
    for name, group, what in SHOWN:
        if line := found.get((group, what)):
            _, measured, beside, base, _, goal = line.cells()
            rows.append(f"| {name} | {measured} | {beside}: {base} | {table.number(line.ratio.median)} | {goal} |")
    return "\n".join(rows)


def _images(document: Document) -> Iterator[str]:
    for name in drawings(document):
        yield f"![{PLOTS[name][0]}](images/bench-{name}.svg)"


def _lost(document: Document) -> Iterator[str]:
    """Say which lines are not reached."""
    lost = [line for line in _lines(document) if line.reached is False]
    if lost:
        yield "Not reached in this run:\n\n" + "\n".join(
            f"- *{line.what}*: {table.number(line.measured.median)} {line.unit}, "
            f"{table.number(line.ratio.median)} times {line.beside}; to reach: {line.goal}"
            for line in lost
        )


def main(latest: Sequence[Path] = (LATEST, long.KEPT)) -> None:
    """Write all of it from the files of the last runs."""
    write(read(*latest))


if __name__ == "__main__":
    main()
