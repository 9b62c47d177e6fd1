"""The bench runs, and measures what it says: next to nothing of everything, so that it does not rot."""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import baseline, direct, load, table
from bench.__main__ import GROUPS, run
from bench.machine import machine
from bench.measure import Series, percentile
from bench.servers import one
from bench.serving import nothing
from bench.sizes import TINY
from bench.table import Curve, Line, Skipped
from bench.trees import Trees
from tests.support.pages import DOCS

SOME = Line(
    group="some", what="this", unit="ms", measured=Series((3.0, 9.0, 4.0)),
    beside="that", base=Series((1.0, 3.0, 2.0)), at_most=4.0,
)  # fmt: skip


@pytest.mark.parametrize("group", [group for group in GROUPS if group != "spark"])  # which tests/spark has
def test_every_group_gives_lines_without_gaps(group: str) -> None:
    results = run([group], TINY)
    lines = [result for result in results if isinstance(result, Line)]
    assert lines or (group == "processes" and all(isinstance(result, Skipped) for result in results))
    for line in lines:
        assert len(line.measured.values) == len(line.base.values) == TINY.rounds
        assert line.measured.low > 0, line
        assert line.base.low > 0, line
    assert len({line.what for line in lines}) == len(lines)
    for curve in (result for result in results if isinstance(result, Curve)):
        assert all(value > 0 for point in curve.points for value in point), curve
    document = json.loads(table.for_programs(results, machine()))
    assert [line["what"] for line in document["lines"]] == [line.what for line in lines]


@pytest.mark.parametrize("group", GROUPS)
def test_the_page_has_every_group(group: str) -> None:
    assert f"| **{group}** |" in (DOCS / "performance.md").read_text()


def test_a_line_tells_medians_and_the_ratio_of_each_round() -> None:
    assert SOME.cells() == ("this", "4.00 ms", "that", "2.00", "3.00 (2.00 to 3.00)", "≤ 4.00: reached")


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
        ({}, "", None),
    ],
)
def test_a_line_may_bound_its_ratio_or_ask_for_as_much_as_something(
    bound: dict[str, float], goal: str, reached: bool | None
) -> None:
    line = dataclasses.replace(SOME, at_most=None, **bound)
    assert (line.goal, line.reached) == (goal, reached)


def test_what_was_not_measured_says_why_and_a_curve_is_no_row() -> None:
    results = [
        SOME,
        Skipped(group="some", what="other", why="it is missing"),
        Curve(group="some", plot="p", name="n", points=((1, 2),)),
    ]
    assert table.for_page(results).splitlines()[-1] == "| other | not measured | it is missing |  |  |  |"
    document = json.loads(table.for_programs(results, {}))
    assert [len(document[kind]) for kind in ("lines", "skipped", "curves")] == [1, 1, 1]


def test_the_code_of_an_earlier_commit_is_imported_before_the_present_one(tmp_path: Path) -> None:
    with baseline.checkout(tmp_path) as root:
        if root is None:
            pytest.skip(baseline.MISSING)
        script = "import acker_service, acker_client; print(acker_service.__file__, acker_client.__file__)"
        own = os.environ | baseline.environment(root)
        out = subprocess.run([sys.executable, "-c", script], env=own, capture_output=True, text=True, check=True).stdout
        assert all(path.startswith(str(root)) for path in out.split())


def test_where_the_clone_lacks_the_earlier_commit_there_is_no_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baseline, "COMMIT", "0" * 40)
    with baseline.checkout(tmp_path) as root:
        assert root is None


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert percentile([5.0, 1.0, 3.0], 0.5) == 3.0
    assert percentile([1.0] * 99 + [7.0], 0.99) == 7.0


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
