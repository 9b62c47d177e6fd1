"""Figures of the documentation: each place shows what the kept run gives, and the README promises no more than that."""

import json
import re
import shutil
from pathlib import Path

import pytest
from acker_service.sizing import capacity

from bench import (
    client,
    delivery,
    http_batches,
    memory,
    outage,
    page,
    peers_cost,
    queues,
    shown,
    single,
    timeouts,
    word_tree,
)
from bench.measure import Series
from bench.sizes import FULL
from bench.table import Line
from tests.support.pages import ROOT

README, PERFORMANCE, COMPARISON, CAPACITY = "README.md", "docs/performance.md", "docs/comparison.md", "docs/capacity.md"
DOCUMENT: page.Document = json.loads((ROOT / page.KEPT).read_text(encoding="utf-8"))
LINES = page.all_lines(DOCUMENT)

TIMES = "\N{MULTIPLICATION SIGN}"

AT = f"at {FULL.pending:,}"
PACE = "from the last ack to the webhook, at 1,000 roots/s"
LATE = {name: f"{name} of {shown.WAVE}" for name in (timeouts.P50, timeouts.P99)}
COMPLETIONS = "completions in a second of the service's processor, by"
ABOVE = "above the untracked task"
MOST = outage.MOST.format(due=FULL.stalled, grace_s=FULL.grace_s)
SEMANTICS, AFTER_OUTAGE = "docs/semantics.md", "20,000 roots fell due"
KEPT = "A pending root takes"
GROUPS = dict.fromkeys((PERFORMANCE, COMPARISON), "| Dramatiq, tasks that are")
PACKED, JSON = ({PERFORMANCE: f"| operations in batches of 1,000, {form}"} for form in ("packed", "JSON"))

MEASURED = (
    (memory.GROUP, f"a pending root, {AT}", {README: "| memory of a pending root", PERFORMANCE: KEPT}),
    (memory.GROUP, f"a pending root with a message id of 12 bytes, {AT}", {PERFORMANCE: KEPT}),
    (memory.GROUP, f"a finished root, {AT}", {PERFORMANCE: KEPT}),
    (http_batches.GROUP, "root updates over HTTP, packed, 1,000 a batch", {README: "| operations of one process"}),
    (delivery.GROUP, f"p50 {PACE}", dict.fromkeys((README, PERFORMANCE), f"| {shown.WEBHOOK_ROW}")),
    (delivery.GROUP, f"p99 {PACE}", dict.fromkeys((README, PERFORMANCE), f"| {shown.WEBHOOK_ROW}")),
    (timeouts.GROUP, LATE[timeouts.P50], dict.fromkeys((README, PERFORMANCE), f"| {shown.WAVE_ROW}")),
    (timeouts.GROUP, LATE[timeouts.P99], dict.fromkeys((README, PERFORMANCE), f"| {shown.WAVE_ROW}")),
    (delivery.GROUP, f"{COMPLETIONS} webhook", {PERFORMANCE: "| completions by webhooks"}),
    (delivery.GROUP, f"{COMPLETIONS} pubsub", {PERFORMANCE: "| completions by pub/sub"}),
    (delivery.GROUP, f"{COMPLETIONS} pull", {PERFORMANCE: "| completions by reading"}),
    (peers_cost.GROUP, f"a task of Dramatiq, groups, {ABOVE}", GROUPS),
    (peers_cost.GROUP, f"a task of Dramatiq, Acker, safe, {ABOVE}", GROUPS),
    (peers_cost.GROUP, f"a task of Dramatiq, Acker, folded, {ABOVE}", GROUPS),
    *((queues.GROUP, f"{name}, {way}: a task above the untracked one, all processes",
       dict.fromkeys((PERFORMANCE, COMPARISON), f"| {name}, tasks that publish"))
      for name, own in (("Dramatiq", "groups"), ("Celery", "chords")) for way in (own, "Acker")),
    (word_tree.GROUP, word_tree.ROOT, dict.fromkeys((PERFORMANCE, COMPARISON), "| Storm")),
    (outage.GROUP, MOST, {SEMANTICS: AFTER_OUTAGE}),
)  # fmt: skip
"""Each figure that is shown as it was measured: its line, and where it stands: the pages, and how the row begins."""

BESIDE = (
    (timeouts.GROUP, LATE[timeouts.P50], dict.fromkeys((README, PERFORMANCE), f"| {shown.CALM_ROW}")),
    (timeouts.GROUP, LATE[timeouts.P99], dict.fromkeys((README, PERFORMANCE), f"| {shown.CALM_ROW}")),
    (word_tree.GROUP, word_tree.ROOT, dict.fromkeys((PERFORMANCE, COMPARISON), "| Storm")),
    (outage.GROUP, MOST, {SEMANTICS: AFTER_OUTAGE}),
)
"""Each figure that is shown of what a line is measured beside."""

A_SECOND = (
    (single.GROUP, "the service, a single ack, 32 connections", {PERFORMANCE: "| acks, each a request"}),
    (single.GROUP, "Redis, a single ack, 32 connections", {PERFORMANCE: "| acks, each a request"}),
    (http_batches.GROUP, "the service, an update, packed", PACKED),
    (http_batches.GROUP, "Redis behind it, an update, packed", PACKED),
    (http_batches.GROUP, "the service, an update, JSON", JSON),
    (http_batches.GROUP, "Redis behind it, an update, JSON", JSON),
    (client.GROUP, "the client, an ack, 1,000 of a root", {PERFORMANCE: "| acks of the Python client, of one root"}),
    (client.GROUP, "the client, an ack, each of another root", {PERFORMANCE: "| acks of the Python client, each of"}),
    (client.GROUP, "the client, an ack, each with one child", {PERFORMANCE: "| acks of the Python client, each with"}),
)  # fmt: skip
"""Each figure that is shown as how often a second one core does what was measured in CPU µs."""


def measured(line: Line) -> float:
    return line.measured.median


def base(line: Line) -> float:
    return line.base.median


def rate(line: Line) -> float:
    return 1e6 / line.measured.median


SHOWN = [
    (name, row, shown.two_digits(value(LINES.line(group, what))))
    for figures, value in ((MEASURED, measured), (BESIDE, base), (A_SECOND, rate))
    for group, what, places in figures
    for name, row in places.items()
]
UNITS = re.compile(r"\d (?:CPU )?µs|\d ms\b|\d /s\b|\d(?: a second| % of)|\d times\b")
"""What a measured figure looks like in a text."""

PROMISE = "never before its deadline, and within a second of it at up to\n   1,000 timeouts a second."


def differing(root: Path) -> list[str]:
    """Return the files that are not what the kept figures give."""
    kept = json.loads((root / page.KEPT).read_text(encoding="utf-8"))
    texts = page.written(kept, root)
    return [path for path, text in texts.items() if (root / path).read_text(encoding="utf-8") != text]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of all files that have figures."""
    for path in page.written(DOCUMENT):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    return tmp_path


def test_every_place_shows_what_the_kept_run_gives() -> None:
    assert differing(ROOT) == [], "make bench-page writes them, docs/figures.json has them; change none by hand"


@pytest.mark.parametrize("place", page.PLACES, ids=lambda place: place.page)
def test_a_figure_that_is_changed_in_one_place_is_noticed(copied: Path, place: page.Place) -> None:
    text = (copied / place.page).read_text()
    begin = text.index(place.marks[0]) + len(place.marks[0])
    at = re.compile(r"\d").search(text, begin)
    assert at
    (copied / place.page).write_text(text[: at.start()] + str((int(at[0]) + 1) % 10) + text[at.end() :])
    assert differing(copied) == [place.page]


@pytest.mark.parametrize(("name", "row", "figure"), SHOWN)
def test_each_figure_stands_where_it_is_said_to_stand(name: str, row: str, figure: str) -> None:
    found = [line for line in (ROOT / name).read_text().splitlines() if line.startswith(row)]
    assert len(found) == 1, row
    assert re.search(rf"(?<![\d,.]){re.escape(figure)}(?![\d,.]\d)", found[0].removeprefix(row)), found[0]


@pytest.mark.parametrize("name", [README, PERFORMANCE, COMPARISON])
def test_no_measured_figure_stands_beside_the_places(name: str) -> None:
    text = (ROOT / name).read_text()
    [place] = [place for place in page.PLACES if place.page == name]
    outside = text[: text.index(place.marks[0])] + text[text.index(place.marks[1]) :]
    prose = re.sub(r"^```.*?^```$", "", outside, flags=re.MULTILINE | re.DOTALL).replace(PROMISE, "")
    assert UNITS.findall(prose) == []


def test_the_formulas_of_the_capacity_have_the_figures_of_acker_bench() -> None:
    text = (ROOT / CAPACITY).read_text()
    growth = f"`growth` is {capacity.GROWTH[0]} for an init and a last ack, {capacity.GROWTH[1]} for an ack."
    assert capacity.GROWTH[0] == capacity.GROWTH[2]
    for words in (
        growth,
        f"`R {TIMES} (K + 1) {TIMES} ({capacity.SERVICE_US:g} µs + {capacity.SERVICE_BATCH_US:g} µs / b)`",
        f"`forget = {capacity.FORGET} {TIMES} last ack`",
        f"{capacity.BUSY} is the share of a core to plan with",
        f"bytes of a root + O {TIMES} {capacity.FINISHED_BYTES:g} bytes + E) {TIMES} {capacity.MEMORY_HEADROOM}`",
        f"{TIMES} {capacity.EDGE_BYTES} bytes + 4 {TIMES} shards",
        f"ACKER_BUCKETS {TIMES} {capacity.SET_BYTES} bytes`",
        f"`{capacity.REMEMBERED_HEADROOM} {TIMES} E`",
    ):
        assert words in text, words


def kept_promise(readme: str, lateness: Line) -> bool:
    """Whether the third promise fits the figures in the table of a README: lateness in ms, calm beside a wave's."""
    promised = re.search(r"within a second of it at up to\s+([\d,]+) timeouts a second\.", readme)
    assert promised, "the third promise says no more at which rate it holds"
    [row] = re.findall(
        rf"^\| {re.escape(shown.CALM_ROW)} \| .* ([\d,]+) ms at the 99th percentile \|$", readme, re.MULTILINE
    )
    rate = float(promised[1].replace(",", ""))
    return rate == shown.CALM_RATE and float(row.replace(",", "")) <= 1_000 and lateness.base.high <= 1_000


def test_the_third_promise_fits_the_figures_beside_it() -> None:
    greatest = LINES.line(timeouts.GROUP, f"{timeouts.LATEST} of {shown.WAVE}")
    readme = (ROOT / README).read_text()
    assert PROMISE in readme
    assert kept_promise(readme, greatest)


def test_a_promise_that_the_figures_do_not_fit_is_noticed() -> None:
    greatest = LINES.line(timeouts.GROUP, f"{timeouts.LATEST} of {shown.WAVE}")
    readme = (ROOT / README).read_text()
    [row] = [line for line in readme.splitlines() if line.startswith(f"| {shown.CALM_ROW}")]
    late = re.sub(r"[\d,]+ ms at", "1,100 ms at", row)
    assert not kept_promise(readme.replace(row, late), greatest)
    assert not kept_promise(readme.replace("1,000 timeouts a second.", "2,000 timeouts a second."), greatest)
    slow = Series.of([*greatest.base.values[1:], 1_001.0])
    assert not kept_promise(readme, Line(group="", what="", unit="ms", measured=slow, beside="", base=slow))
