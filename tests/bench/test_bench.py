"""The bench runs, and measures what it says: next to nothing of everything, so that it does not rot."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from acker_protocol.wire import packed

from bench import baseline, direct, goals, load, page, single, spark, table
from bench.__main__ import GROUPS, Run, run
from bench.kept import Kept
from bench.machine import machine
from bench.measure import Series, percentile
from bench.servers import one
from bench.serving import nothing
from bench.sizes import FULL, TINY
from bench.table import Curve, Line, Result, Skipped
from bench.trees import Trees, packed_body
from docs.images import plots
from tests.support.pages import DOCS, ROOT

SOME = Line(
    group="some", what="this", unit="ms", measured=Series((3.0, 9.0, 4.0)),
    beside="that", base=Series((1.0, 3.0, 2.0)), at_most=4.0,
)  # fmt: skip


def assert_each_goal_has_a_line(group: str, results: list[Result]) -> None:
    found = {row.what for row in table.rows(results)}
    assert [goal.line for goal in goals.goals(TINY) if goal.group == group and goal.line not in found] == []


def assert_each_figure_of_cpu_is_measured_beside_the_commit(results: list[Result]) -> None:
    rows = {row.what: row for row in table.rows(results)}
    figures = [
        line.what
        for line in rows.values()
        if isinstance(line, Line) and line.unit.startswith("CPU") and not line.what.startswith("the load")
        if not line.what.endswith(baseline.NAME)
    ]
    assert figures
    assert [what for what in figures if f"{what}, beside {baseline.NAME}" not in rows] == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "group", [group for group in GROUPS if group not in {"spark", "peers", "languages"}]
)  # which tests/spark, tests/pipelines and tests/clients have
def test_every_group_gives_lines_without_gaps(group: str) -> None:
    results = run([group], TINY)
    lines = [result for result in results if isinstance(result, Line)]
    assert lines or (group == "processes" and all(isinstance(result, Skipped) for result in results))
    for line in lines:
        assert len(line.measured.values) == len(line.base.values) == TINY.rounds
        assert line.measured.low > 0, line
        assert line.base.low > 0, line
    assert len({line.what for line in lines}) == len(lines)
    assert_each_goal_has_a_line(group, results)
    if group in {"single", "batches", "client", "delivery"}:
        assert_each_figure_of_cpu_is_measured_beside_the_commit(results)
    for curve in (result for result in results if isinstance(result, Curve)):
        assert all(value > 0 for point in curve.points for value in point), curve
    document = json.loads(table.for_programs(results, machine()))
    assert [line["what"] for line in document["lines"]] == [line.what for line in lines]


@pytest.mark.timeout(600)
def test_in_a_clone_without_the_earlier_commit_all_else_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline, "COMMIT", "0" * 40)
    results = run(["single"], TINY)
    assert_each_figure_of_cpu_is_measured_beside_the_commit(results)
    skipped = [row for row in table.rows(results) if row.what.endswith(baseline.NAME)]
    assert {row.why for row in skipped if isinstance(row, Skipped)} == {baseline.MISSING}
    assert [row for row in skipped if isinstance(row, Line)] == []


@pytest.mark.parametrize("group", GROUPS)
def test_the_page_has_every_group(group: str) -> None:
    assert f"| **{group}** |" in (DOCS / "figures.md").read_text()


def test_each_group_but_four_has_a_goal() -> None:
    assert set(GROUPS) - {goal.group for goal in goals.goals(FULL)} == {"cluster", "decoding", "outage", "window"}


def test_a_goal_without_a_line_is_shown_as_not_measured() -> None:
    rows = {row[0]: row[1:] for row in goals.table([SOME], FULL)}
    assert rows["memory, a pending root"] == ("not measured", goals.MISSING, "", "")
    assert len(rows) == len(goals.goals(FULL))


def test_a_group_that_ends_with_an_error_leaves_a_line_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Iterator[Result]:
        raise RuntimeError("no Java")

    monkeypatch.setitem(GROUPS, "bad", fail)
    monkeypatch.setitem(GROUPS, "good", lambda *_: iter([SOME]))
    ran = Run()
    for group in ("bad", "good"):
        ran.add(group, TINY)
    assert ran.failed == ["bad"]
    assert ran.lines == [Skipped(group="bad", what="the group", why="it ended with RuntimeError"), SOME]
    assert set(ran.took_s) == {"bad", "good"}


def test_a_line_tells_medians_and_the_ratio_of_each_round() -> None:
    assert SOME.cells() == ("this", "0", "4.00 ms", "that", "2.00", "3.00 (2.00 to 3.00)", "≤ 4.00: reached")


def test_what_is_not_reached_is_said() -> None:
    line = dataclasses.replace(SOME, at_most=3.9)
    assert line.cells()[-1] == "≤ 3.90: NOT reached"
    assert line.document()["reached"] is False


@pytest.mark.parametrize(
    ("bound", "goal", "reached"),
    [
        ({"at_least": 4.0}, "≥ 4.00", True),
        ({"at_least": 4.1}, "≥ 4.10", False),
        ({"ratio_at_most": 3.0}, "ratio ≤ 3.00", True),
        ({"ratio_at_most": 2.9}, "ratio ≤ 2.90", False),
        ({"lowest_ratio_at_most": 2.0}, "lowest ratio ≤ 2.00", True),
        ({"lowest_ratio_at_most": 1.9}, "lowest ratio ≤ 1.90", False),
        ({}, "", None),
    ],
)
def test_a_line_may_bound_its_ratio_or_ask_for_as_much_as_something(
    *, bound: dict[str, float], goal: str, reached: bool | None
) -> None:
    line = dataclasses.replace(SOME, at_most=None, **bound)
    assert (line.goal, line.reached) == (goal, reached)


def test_what_was_not_measured_says_why_and_a_curve_is_no_row() -> None:
    results = [
        SOME,
        Skipped(group="some", what="other", why="it is missing"),
        Curve(group="some", plot="p", name="n", points=((1, 2),)),
    ]
    assert table.for_page(results).splitlines()[-1] == "| other |  | not measured | it is missing |  |  |  |"
    document = json.loads(table.for_programs(results, {}))
    assert [len(document[kind]) for kind in ("lines", "skipped", "curves")] == [1, 1, 1]


def test_the_code_of_an_earlier_commit_is_imported_before_the_present_one(tmp_path: Path) -> None:
    codes = baseline.codes(tmp_path)
    if baseline.NAME not in codes:
        pytest.skip(baseline.MISSING)
    script = "import acker_service, acker_client; print(acker_service.__file__, acker_client.__file__)"
    for root in codes.values():
        own = os.environ | baseline.environment(root)
        out = subprocess.run([sys.executable, "-c", script], env=own, capture_output=True, text=True, check=True).stdout
        assert all(path.startswith(f"{root}/") for path in out.split())


def test_each_code_says_which_version_of_the_packed_form_it_reads(tmp_path: Path) -> None:
    codes = baseline.codes(tmp_path)
    if baseline.NAME not in codes:
        pytest.skip(baseline.MISSING)
    versions = {name: baseline.packed_version(root) for name, root in codes.items()}
    assert versions == {"": packed.VERSION, baseline.NAME: 1}


def test_a_batch_is_written_in_the_version_that_is_asked_for() -> None:
    inits = Trees(1).inits()
    written = {version: packed_body(inits, version) for version in (1, packed.VERSION)}
    assert [packed.HEADER.unpack_from(body)[:2] for body in written.values()] == [
        (packed.MAGIC, 1), (packed.MAGIC, packed.VERSION),
    ]  # fmt: skip
    assert len({body[packed.HEADER.size :] for body in written.values()}) == 1


def test_where_the_clone_lacks_the_earlier_commit_there_is_only_the_present_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baseline, "COMMIT", "0" * 40)
    assert baseline.codes(tmp_path) == {"": baseline.ROOT}


def test_the_first_code_of_a_round_is_the_last_of_the_next() -> None:
    codes = {"": 1, baseline.NAME: 2}
    assert [baseline.turns(codes, number) for number in range(3)] == [
        [("", 1), (baseline.NAME, 2)], [(baseline.NAME, 2), ("", 1)], [("", 1), (baseline.NAME, 2)],
    ]  # fmt: skip


@pytest.mark.parametrize(("earlier", "reached"), [((1.0, 3.0, 4.0), True), ((1.0, 3.0, 3.8), False)])
def test_a_figure_is_slower_than_that_of_the_commit_if_it_is_in_each_round(
    earlier: tuple[float, ...], *, reached: bool
) -> None:
    """It takes 3, 9 and 4."""
    line, beside = baseline.both(SOME, Series(earlier))
    assert line is SOME
    assert isinstance(beside, Line)
    assert (beside.what, beside.goal) == (f"this, beside {baseline.NAME}", "lowest ratio ≤ 1.03")
    assert (beside.measured, beside.base.values, beside.reached) == (SOME.measured, earlier, reached)


def test_a_figure_that_the_commit_lacks_is_skipped_with_the_reason() -> None:
    skipped = Skipped(group="some", what=f"this, beside {baseline.NAME}", why=baseline.MISSING)
    assert baseline.both(SOME, None) == (SOME, skipped)


def kept_document() -> page.Document:
    """The figures that are kept in the repository."""
    found: page.Document = json.loads((ROOT / page.KEPT).read_text(encoding="utf-8"))
    return found


def steady(document: page.Document) -> page.Document:
    """The same as measured on a machine whose speed does not change."""
    for line in document["lines"]:
        if line["beside"] == single.ROUTE and line["unit"] == single.CPU_US:
            line["base"]["values"] = [100.0, 125.0, 110.0, 100.0, 120.0]
    return document


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of all files that have figures, with those that are kept."""
    for path in page.written(kept_document()):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    return tmp_path


def texts(root: Path) -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in root.rglob("*") if path.is_file()}


def run_of(document: page.Document, root: Path) -> str:
    """Replace the figures by those of a run without long measurements; return why nothing was replaced."""
    latest = root.parent / "latest.json"
    latest.write_text(json.dumps({key: document[key] for key in ("machine", "took_s", "lines", "skipped", "curves")}))
    return page.replace(latest, Kept(root.parent / "long.jsonl"), root)


def test_the_figures_of_a_run_replace_those_of_the_pages_between_their_marks(root: Path) -> None:
    before, document = texts(root), steady(kept_document())
    for line in document["lines"]:
        if line["what"] == "a pending root, at 1,000,000":
            line["measured"]["values"] = [37.0] * 5
    assert run_of(document, root) == ""
    after = texts(root)
    changed = {path.relative_to(root).as_posix() for path in after if after[path] != before[path]}
    assert changed == {page.KEPT, page.ALL_FIGURES, "README.md", "docs/performance.md", "bench/README.md"}
    assert "| memory of a pending root, with 1,000,000 pending | 37 bytes |" in after[root / "README.md"]
    assert "A pending root takes 37 bytes of Redis" in after[root / "docs/performance.md"]
    assert "| memory, a pending root | 37.0 bytes |" in after[root / "bench/README.md"]
    for place in page.PLACES:
        outside = [
            text.partition(place.marks[0])[0] + text.partition(place.marks[1])[2]
            for text in (before[root / place.page], after[root / place.page])
        ]
        assert outside[0] == outside[1]


def test_a_run_on_a_machine_whose_speed_changes_says_so_and_replaces_nothing(root: Path) -> None:
    before, document = texts(root), steady(kept_document())
    [line] = [line for line in document["lines"] if line["what"] == "the service, a single ack, 1 connection"]
    line["base"]["values"][1] = 126.0
    assert run_of(document, root) == (
        "the speed of the machine changed, for an empty route of FastAPI took 100 to 126 CPU µs between rounds, beside "
        "'the service, a single ack, 1 connection': run make bench again while nothing else runs"
    )
    assert texts(root) == before


def test_a_run_that_lacks_a_figure_of_a_page_says_so_and_replaces_nothing(root: Path) -> None:
    before, document = texts(root), steady(kept_document())
    document["lines"] = [line for line in document["lines"] if line["group"] != "delivery"]
    assert run_of(document, root).startswith("the run has no line 'p50 from the last ack to the webhook")
    assert texts(root) == before


def test_a_group_that_the_run_measured_is_not_shown_as_measured_apart_any_more(root: Path) -> None:
    document, parts = steady(kept_document()), list[page.Document]()
    for group in ("languages", "window"):
        lines = [line for line in document["lines"] if line["group"] == group]
        assert lines
        parts.append({"group": group, "note": "one round", "lines": lines, "curves": []})
    (root / page.KEPT).write_text(json.dumps(document | {"apart": parts}))
    document["lines"] = [line for line in document["lines"] if line["group"] != "window"]
    document["skipped"] += [{"group": "window", "what": "an edge", "why": "it ended with an error"}]
    skipped = len(document["skipped"])
    assert run_of(document, root) == ""
    kept = json.loads((root / page.KEPT).read_text())
    assert [part["group"] for part in kept["apart"]] == ["window"]
    assert len(kept["skipped"]) == skipped - 1
    assert kept["store"] == document["store"]


def test_what_the_long_bench_measured_of_another_system_is_shown_beside_acker(root: Path) -> None:
    """Of BullMQ: 200 CPU µs a job, 100 without flows."""
    kept = Kept(root.parent / "long.jsonl")
    taken = {f"{way} {name}": Series((value,)) for way, value in (("untracked", 100.0), ("flows", 200.0))
             for name in ("cpu", "wall", "bytes")}  # fmt: skip
    kept.add("bullmq, cost", taken | {f"{way} above": Series((100.0,)) for way in ("untracked", "flows")})
    assert run_of(steady(kept_document()), root) == ""
    row = "| BullMQ, jobs that are known beforehand | flows | 100 |  |"
    for name in ("docs/performance.md", "docs/comparison.md"):
        assert row in (root / name).read_text().splitlines()
    assert (
        f"Measured apart, 1 rounds of make bench-long GROUP=bullmq, commit {baseline.head()}:"
        in (root / page.ALL_FIGURES).read_text()
    )


def test_writing_the_figures_again_changes_nothing(root: Path) -> None:
    before = texts(root)
    page.write(kept_document(), root)
    assert texts(root) == before


def test_what_is_not_reached_is_listed_and_what_was_skipped_is_said(root: Path) -> None:
    document = steady(kept_document())
    slow = dataclasses.replace(SOME, what="slower each time", at_most=None, lowest_ratio_at_most=1.03)
    document["lines"] += [dataclasses.replace(SOME, what="too slow", at_most=1.0).document(), slow.document()]
    document["skipped"] += [{"group": "some", "what": "other", "why": "it is missing"}]
    assert run_of(document, root) == ""
    written = (root / "bench/README.md").read_text()
    assert "- *too slow*: 4.00 ms, 3.00 times that; to reach: ≤ 1.00" in written
    assert "- *slower each time*: 4.00 ms, 3.00 times that; to reach: lowest ratio ≤ 1.03" in written
    assert "| other |  | not measured | it is missing |" in (root / page.ALL_FIGURES).read_text()


def document() -> page.Document:
    """A run with a curve for each plot."""
    curves = (Curve(group="some", plot=plot, name="Acker", points=((10, 1.5), (99, 20.0))) for plot in page.PLOTS)
    found: page.Document = json.loads(table.for_programs(list(curves), {"commit": "abc"}))
    return found | {"apart": []}


@pytest.mark.parametrize("name", page.PLOTS)
def test_a_plot_has_a_line_and_two_points_within_its_frame(name: str) -> None:
    drawn = ElementTree.fromstring(page.drawings(document())[name])
    circles = drawn.findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 2
    assert all(plots.LEFT <= float(circle.attrib["cx"]) <= plots.RIGHT for circle in circles)
    assert all(plots.TOP <= float(circle.attrib["cy"]) <= plots.BOTTOM for circle in circles)


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert percentile([5.0, 1.0, 3.0], 0.5) == 3.0
    assert percentile([1.0] * 99 + [7.0], 0.99) == 7.0


def test_what_the_acker_takes_of_shared_cores_is_taken_off_a_job_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 messages in 10 s, of which the acker and its Redis took a second each, on two cores."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    parts = {"messages": 100.0, "seconds": 10.0, "service": 1_000.0, "redis": 1_000.0, "jvm": 1.0, "python": 1.0}
    found = {("orders", level, name): Series((value,)) for level in spark.MOST for name, value in parts.items()}
    assert spark.elsewhere(Series((10.0,)), found, "batch").values == (9.0,)


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with nothing(tmp_path_factory.mktemp("echo"), "echo") as served:
        yield served.port


def test_the_load_sends_every_request_once(echo: int) -> None:
    sent = load.send(echo, [load.post("/", b"{}", "application/json")] * 100, connections=8, expected=b"accepted")
    assert len(sent.each_s) == 100


def test_the_load_does_not_measure_wrong_answers(echo: int) -> None:
    with pytest.raises(load.WrongAnswerError, match="accepted"):
        load.send(echo, [load.post("/", b"{}", "application/json")], connections=1, expected=b"pending")


def test_calls_that_were_answered_something_else_are_not_measured(tmp_path: Path) -> None:
    with one(tmp_path) as server:
        at, trees = direct.make(server, direct.TopologyConfig()), Trees(10)
        at.run(at.prepare(trees.inits()), "p")
        with pytest.raises(AssertionError, match="not all answered a"):
            at.run(at.prepare(trees.acks()), "a")
        at.close()
