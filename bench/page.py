"""Puts the figures of a run into the documentation: `python -m bench.page`, after `make bench` (and `make bench-long`).

docs/figures.json keeps all that was measured: the lines and curves of the last whole run of `make bench`; groups that
were measured apart from it (`apart`), also by `make bench-long`; and what the formulas of the capacity are fitted to
(`store`). Every figure of the pages in `PLACES`, docs/figures.md and the plots are written from this one file.
A run on a machine whose speed changes, or that lacks a figure of these pages, replaces nothing.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import capacity, goals, long, outage, queues, shown, single, table
from bench.__main__ import LATEST
from bench.baseline import ROOT
from bench.kept import SIMULATED_SECTION, Kept, store_section
from bench.measure import Series
from bench.sizes import FULL
from bench.table import Line, Result, Skipped
from docs.images import plots

FIGURES = ("<!-- figures of the last run -->", "<!-- end of the figures -->")
FITTED = ("<!-- fitted to the last measurements -->", "<!-- end of what is fitted -->")
KEPT = "docs/figures.json"
ALL_FIGURES = "docs/figures.md"
Document = dict[str, Any]

PLOTS = {
    "throughput": ("Acks a second, by the size of a batch", "acks in a batch", "acks a second", "log", "log"),
    "cost": ("Redis: time of an operation, by pending roots", "pending roots", "CPU µs of Redis", "log", "even"),
    "bytes": ("Redis: memory of a pending root", "pending roots", "bytes a root", "log", "even"),
    "latency": ("Time until a single ack is answered", "percent of all acks", "milliseconds, at most", "even", "log"),
    "lateness": ("How late timeouts are, by their rate", "timeouts a second", "ms after the deadline", "log", "log"),
    "outage": ("Timeouts after an outage, by second", "second after it", "timeouts in that second", "even", "even"),
}  # fmt: skip
"""Each plot's title, the labels of its axes, and their kinds."""


USERS_PLOTS = ("throughput", "lateness")
"""The plots that users are shown; the others are for developers."""

_BOUNDS = ("at_most", "at_least", "ratio_at_most", "lowest_ratio_at_most")
_PLAIN_FIELDS = ("group", "what", "unit", "beside", *_BOUNDS, "window")


def read(latest: Path, kept: Kept, before: Document) -> Document:
    """Read the values of the last run, and what was measured apart from it.

    ``before`` has what was kept: of a group, and of the capacity, that nothing new is known of it stays.
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
    own = own or [curve for curve in before["curves"] if curve["group"] == store_section()]
    names = {(curve["plot"], curve["name"]) for curve in own}
    document["curves"] = [c for c in document["curves"] if (c["plot"], c["name"]) not in names] + own
    new = {line["group"] for line in document["lines"]}
    apart = {part["group"]: part for part in before["apart"]} | {part["group"]: part for part in _long_parts(kept)}
    document["apart"] = [part for group, part in apart.items() if group not in new]
    measured = {part["group"] for part in document["apart"]}
    document["skipped"] = [line for line in document["skipped"] if line["group"] not in measured]
    document["store"] = capacity.section(kept) or before["store"]
    return document


def _long_parts(kept: Kept) -> Iterator[Document]:
    """Yield what the long bench has measured of other systems, each with the commit that it is of."""
    for group in (*long.PEERS, queues.GROUP):
        cases = [(case, taken) for case in long.cases(group, FULL) if (taken := kept.get(case.key))]
        if cases:
            rounds = max(len(series.values) for _, taken in cases for series in taken.values())
            commits = sorted({kept.commit(case.key) for case, _ in cases})
            note = f"{rounds} rounds of make bench-long GROUP={group}, commit {', '.join(commits)}"
            lines = [line.document() for line in long.results(group, cases, kept) if isinstance(line, Line)]
            yield {"group": group, "note": note, "lines": [line | {"group": group} for line in lines], "curves": []}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where figures stand: between two marks of a page, which ``write`` fills from the document."""

    page: str
    marks: tuple[str, str]
    write: Callable[[Document], str]

    def filled(self, text: str, document: Document) -> str:
        """Return the text of the page with the figures of the document."""
        before, _, rest = text.partition(self.marks[0])
        _, found, after = rest.partition(self.marks[1])
        assert found, f"{self.page} lacks {' or '.join(self.marks)}"
        return f"{before}{self.marks[0]}\n\n{self.write(document)}\n\n{self.marks[1]}{after}"


def written(document: Document, root: Path = ROOT) -> dict[str, str]:
    """Return all files that have figures, by their path, as the document gives them.

    Raises `bench.shown.MissingFigureError` where the document lacks a figure of a page.
    """
    texts = {KEPT: json.dumps(document, indent=1) + "\n", ALL_FIGURES: figures(document)}
    for place in PLACES:
        text = (root / place.page).read_text(encoding="utf-8")
        texts[place.page] = place.filled(texts.get(place.page, text), document)
    return texts | {f"docs/images/bench-{name}.svg": drawn for name, drawn in drawings(document).items()}


def write(document: Document, root: Path = ROOT) -> None:
    """Write all files that have figures; none where the document lacks a figure of one."""
    for path, text in written(document, root).items():
        (root / path).write_text(text, encoding="utf-8")


def figures(document: Document) -> str:
    """Write the page of all lines."""
    head = (
        "# All figures\n\nEvery line of the last `make bench`, and below what was measured apart from it. "
        "[bench/README.md](../bench/README.md#how-to-read-it) says how to read a line.\n\n"
    )
    parts = [f"{head}{_machine(document)}", table.for_page(results(document))]
    for part in document["apart"]:
        parts += [f"Measured apart, {part['note']}:", table.for_page(list(map(_line, part["lines"])))]
    return "\n\n".join(parts) + "\n"


def drawings(document: Document) -> dict[str, str]:
    """Draw the plots of which there are points."""
    drawn, curves = {}, document["curves"] + [curve for part in document["apart"] for curve in part["curves"]]
    for name, (title, across, up, *kinds) in PLOTS.items():
        lines = [plots.Line(name=curve["name"], points=curve["points"]) for curve in curves if curve["plot"] == name]
        values = [list(map(float, column)) for column in zip(*(p for line in lines for p in line.points), strict=True)]
        if values:
            x, y = (
                (plots.logarithmic if kind == "log" else plots.even)(label, own)
                for label, own, kind in zip((across, up), values, kinds, strict=True)
            )
            drawn[name] = plots.plot(title, x, y, lines).render()
    return drawn


def results(document: Document) -> list[Result]:
    """Read the lines of the run itself."""
    return [*map(_line, document["lines"]), *(Skipped(**own) for own in document["skipped"])]


def all_lines(document: Document) -> shown.Lines:
    """Read the lines of the run, and those of what was measured apart."""
    apart = (_line(line) for part in document["apart"] for line in part["lines"])
    notes = {part["group"]: part["note"] for part in document["apart"]}
    return shown.Lines.of([*results(document), *apart], notes)


def _line(own: Document) -> Line:
    fields: dict[str, Any] = {name: own[name] for name in _PLAIN_FIELDS if name in own}
    fields |= {name: Series.of(own[name]["values"]) for name in ("measured", "base")}
    return Line(**fields)


def _machine(document: Document) -> str:
    return "; ".join(f"{name}: {value}" for name, value in document["machine"].items()) + "."


def _readme(document: Document) -> str:
    return shown.readme(all_lines(document))


def _performance(document: Document) -> str:
    """Write what users are shown: on what it was measured, the tables, and the plots that are theirs."""
    machine = document["machine"]
    on = (
        f"Medians of {machine['rounds']} rounds at commit {machine['commit']}, on {machine['processors']}, "
        f"{machine['store']} and Python {machine['python']}; the load ran on the same processors."
    )
    return "\n\n".join((on, shown.performance(all_lines(document)), *_images(document, USERS_PLOTS, "images")))


def _comparison(document: Document) -> str:
    return shown.comparison(all_lines(document))


def _capacity(document: Document) -> str:
    return capacity.page(document["store"])


def _outage(document: Document) -> str:
    (image,), apart = _images(document, ("outage",), "images"), {part["group"]: part for part in document["apart"]}
    note = f", {apart[outage.GROUP]['note']}" if outage.GROUP in apart else ""
    return f"{image}\n\n{shown.outage(all_lines(document))} These are medians of `make bench`{note}."


def _score(document: Document) -> str:
    """Write what developers are shown: each goal, what is not reached, and the other plots."""
    rows = goals.table([*all_lines(document).found.values(), *results(document)], FULL)
    score = "\n".join(f"| {' | '.join(row)} |" for row in (goals.COLUMNS, ("---",) * len(goals.COLUMNS), *rows))
    others = tuple(name for name in PLOTS if name not in (*USERS_PLOTS, outage.GROUP))
    return "\n\n".join((_machine(document), score, *_images(document, others, "../docs/images"), *_lost(document)))


def _images(document: Document, names: tuple[str, ...], folder: str) -> Iterator[str]:
    drawn = drawings(document)
    for name in names:
        if name in drawn:
            yield f"![{PLOTS[name][0]}]({folder}/bench-{name}.svg)"


def _lost(document: Document) -> Iterator[str]:
    """Yield which lines are not reached."""
    lost = [line for line in results(document) if isinstance(line, Line) and line.reached is False]
    if lost:
        yield "Not reached in this run:\n\n" + "\n".join(
            f"- *{line.what}*: {table.number(line.measured.median)} {line.unit}, "
            f"{table.number(line.ratio.median)} times {line.beside}; to reach: {line.goal}"
            for line in lost
        )


PLACES = (
    Place(page="README.md", marks=FIGURES, write=_readme),
    Place(page="docs/performance.md", marks=FIGURES, write=_performance),
    Place(page="docs/comparison.md", marks=FIGURES, write=_comparison),
    Place(page="docs/capacity.md", marks=FITTED, write=_capacity),
    Place(page="docs/semantics.md", marks=FIGURES, write=_outage),
    Place(page="bench/README.md", marks=FIGURES, write=_score),
)
"""Every place of the documentation that has figures of a run, but for docs/figures.md, which is one."""


def replace(latest: Path, kept: Kept, root: Path = ROOT) -> str:
    """Write all of it from the files of the last runs; return why nothing was replaced, or an empty text."""
    before = json.loads((root / KEPT).read_text(encoding="utf-8"))
    document = read(latest, kept, before)
    if changes := single.speed_changes(results(document)):
        return changes
    try:
        write(document, root)
    except shown.MissingFigureError as missing:
        return str(missing)
    return ""


def main() -> None:
    """Write all of it, or say why nothing is replaced."""
    if not LATEST.exists():
        raise SystemExit(f"Nothing was replaced: there is no {LATEST.relative_to(ROOT)}; make bench writes it.")
    if why := replace(LATEST, Kept()):
        raise SystemExit(f"Nothing was replaced: {why}")


if __name__ == "__main__":
    main()
