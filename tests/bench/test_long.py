"""The long measurements go on where they stopped, and the formulas of the capacity are fitted to them."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from bench import baseline, capacity, direct, long, redis_agent, redis_time, simulated, table, word_tree
from bench.kept import SIMULATED_SECTION, Kept, store_key, store_section
from bench.measure import Series
from bench.peers import install
from bench.servers import one
from bench.sizes import FULL, TINY
from bench.table import Curve, Line, Skipped
from bench.trees import Trees

ROOTS = 100_000
"""So many that the scripts which simulate them take no noticeable share of the memory."""


def case(name: str, measured: list[str]) -> long.Case:
    def measure(*_: object) -> long.Taken:
        measured.append(name)
        return {"cost": Series((1.0, 2.0))}

    return long.Case(section="some", key=name, measure=measure)


def test_a_long_measurement_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []
    some = [case(name, measured) for name in ("a", "b", "c")]
    file = tmp_path / "long.jsonl"
    monkeypatch.setattr(long, "cases", lambda *_: some[:2])
    long.run("store", TINY, Kept(file))
    monkeypatch.setattr(long, "cases", lambda *_: some)
    found = long.run("store", TINY, Kept(file))
    assert measured == ["a", "b", "c"]
    assert [taken["cost"].values for _, taken in found] == [(1.0, 2.0)] * 3


def test_a_case_whose_tool_is_missing_is_left_out_and_measured_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> long.Taken:
        raise install.MissingToolError("npm is not on the PATH")

    measured: list[str] = []
    some = [dataclasses.replace(case("a", measured), measure=fail), case("b", measured)]
    monkeypatch.setattr(long, "cases", lambda *_: some)
    kept = Kept(tmp_path / "long.jsonl")
    assert [one.key for one, _ in long.run("store", TINY, kept)] == ["b"]
    assert kept.get(some[0].key) is None


def test_only_cases_with_some_text_in_their_names_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []
    monkeypatch.setattr(long, "cases", lambda *_: [case(name, measured) for name in ("one a", "two a", "two b")])
    long.run("store", TINY, Kept(tmp_path / "long.jsonl"), only="two")
    assert measured == ["two a", "two b"]


def kept_levels(path: Path) -> Kept:
    """A file with both sizes between which growth is measured: 2 µs more, beside 4 of the earlier commit."""
    kept = Kept(path)
    for pending, own, earlier in ((redis_time.FEWEST, 5.0, 10.0), (redis_time.FURTHEST, 7.0, 14.0)):
        taken = {name: Series((own,)) for name in redis_time.OPERATIONS}
        taken |= {name + baseline.NAME: Series((earlier,)) for name in redis_time.OPERATIONS}
        kept.add(store_key(store_section(), pending), taken)
    return kept


def test_what_five_million_pending_roots_add_is_taken_from_the_last_long_measurement(tmp_path: Path) -> None:
    found = list(redis_time.recorded_growth(kept_levels(tmp_path / "long.jsonl")))
    assert [isinstance(line, Line) and (line.ratio.median, line.reached) for line in found] == [(0.5, True)] * 3
    missing = list(redis_time.recorded_growth(Kept(tmp_path / "none.jsonl")))
    assert [isinstance(line, Skipped) for line in missing] == [True] * 3
    assert [row.what for row in table.rows(found)] == [row.what for row in table.rows(missing)]


@pytest.mark.parametrize(("recorded", "beside", "base"), [(True, "commit", 50.0), (False, word_tree.ELSEWHERE, 46.0)])
def test_without_storm_a_root_is_compared_with_the_last_figure_that_there_is(
    *, tmp_path: Path, recorded: bool, beside: str, base: float
) -> None:
    kept = Kept(tmp_path / "long.jsonl")
    if recorded:
        kept.add(word_tree.RECORDED, {"Storm": Series((40.0, 50.0, 60.0))})
    taken = {name: Series((200.0, 210.0)) for name in ("all", *word_tree.PARTS)}
    line = next(word_tree.lines(taken, kept))
    assert line.base.values == (base, base)
    assert beside in line.beside


def test_each_group_of_the_long_measurements_has_cases_with_keys_of_their_own() -> None:
    found = [one.key for group in long.GROUPS for one in long.cases(group, FULL)]
    assert len(found) == len(set(found))
    assert "Redis 7.0, timeouts of minutes, append-only file on, 10,000,000 pending" in found


SIZES = (*capacity.FITTED_TO, *capacity.CHECKED_AT, capacity.SIMULATED)


def measured_by(base: float, slope: float) -> dict[str, dict[int, float]]:
    return {
        name: {at: base + slope * capacity.tenfolds(at) for at in SIZES}
        for name in (*capacity.OPERATIONS, capacity.SWEEP)
    }


def test_the_formulas_of_the_capacity_are_exact_where_the_costs_are_linear() -> None:
    measured = measured_by(5.0, 1.5)
    for name, fitted in capacity.fits(measured).items():
        assert (fitted.base, fitted.slope) == (pytest.approx(5.0), pytest.approx(1.5)), name
    assert re.findall(r"(\d\.\d+) µs", capacity.residuals(measured)) == ["0.00"] * 4
    assert capacity.tenfolds(1_000_000) == 2.0


def test_forgetting_a_root_is_shown_as_a_share_of_a_last_ack() -> None:
    measured = measured_by(8.0, 2.0)
    measured[capacity.SWEEP] = {at: us / 4 for at, us in measured[capacity.SWEEP].items()}
    rows = capacity.shares(measured).splitlines()[2:]
    assert [row.split(" | ")[1] for row in rows] == ["0.25"] * 5
    assert rows[-1].startswith("| forgetting a root takes of a last ack | 0.25 |")


def test_pending_roots_that_are_simulated_are_measured_without_what_forgets_them(tmp_path: Path) -> None:
    sizes = dataclasses.replace(TINY, rounds=1)
    taken = redis_time.level({"": baseline.ROOT}, tmp_path, 6_000, sizes, rounds=iter([0]), simulated=True)
    assert "sweep" not in taken
    results = list(redis_time.lines({6_000: taken}, SIMULATED_SECTION))
    assert "a last ack, 6,000 pending" in [row.what for row in table.rows(results)]
    assert "a last ack" not in [found.name for found in results if isinstance(found, Curve)]


def test_few_roots_are_ended_and_forgotten_again_until_enough_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tick takes 1 s while there is nothing to forget, else 1.5 s."""
    taken_s, ended = iter([1.0, 1.5, 1.5, 1.5]), list[int]()
    monkeypatch.setattr(redis_agent.Agent, "_ticking", lambda _: next(taken_s))
    monkeypatch.setattr(redis_agent.Agent, "_end", lambda _, count: ended.append(count))
    with one(tmp_path) as server:
        task = redis_agent.Task(
            port=server.port, pending=1_000, swept=3_000, sweep_s=0.0, retention_ms=1, message_timeout_ms=direct.WEEK_MS
        )
        assert redis_agent.Agent(task).forget() == {"sweep": pytest.approx(1.5 / 3_300 * 1e6)}
    assert ended == [1_100] * 3


def test_the_table_of_the_capacity_marks_the_sizes_that_it_was_not_fitted_to() -> None:
    rows = capacity.table({"an init": measured_by(5.0, 1.0)["an init"]}).splitlines()[2:]
    assert [("not fitted to" in row, "simulated" in row) for row in rows] == [
        (False, False), (True, False), (False, False), (True, False), (False, False), (False, True),
    ]  # fmt: skip
    assert rows[1] == "| an init | 100,000, not fitted to | 6.0 µs | 6.0 µs | +0% |"


def test_the_page_of_the_capacity_is_written_once_all_sizes_are_measured(tmp_path: Path) -> None:
    kept, costs = Kept(tmp_path / "long.jsonl"), measured_by(5.0, 1.0)
    for pending in (*capacity.FITTED_TO, *capacity.CHECKED_AT):
        assert capacity.section(kept) == {}
        taken = {name: Series((costs[name][pending],)) for name in capacity.OPERATIONS}
        kept.add(store_key(store_section(), pending), taken | {"sweep": Series((1.0,)), "bytes": Series((41.0,))})
    kept.add(store_key(SIMULATED_SECTION, capacity.SIMULATED), taken)
    written = capacity.page(json.loads(json.dumps(capacity.section(kept))))
    assert capacity.measurements(kept)["a last ack"] == {
        at: costs["a last ack"][at] - 1.0 for at in (*capacity.FITTED_TO, *capacity.CHECKED_AT)
    } | {capacity.SIMULATED: taken["a last ack"].median}
    assert written.count("| forgetting a root |") == len(capacity.FITTED_TO) + len(capacity.CHECKED_AT)
    assert "a pending root had 41 bytes" in written
    assert "| 50,000 | 2 | 2,000 s (100,000,000 pending) |" in written


@pytest.mark.timeout(120)
def test_simulated_roots_take_the_memory_of_emitted_ones_and_are_pending(tmp_path: Path) -> None:
    grown = {}
    for kind in ("emitted", "simulated"):
        with one(tmp_path / kind) as server:
            buckets = direct.buckets_for(ROOTS, ackers=4)
            at = direct.make(server, direct.TopologyConfig(buckets=buckets, message_timeout_ms=direct.WEEK_MS))
            before = at.used_memory()
            if kind == "emitted":
                at.run(at.prepare(Trees(ROOTS).inits()), "p")
            else:
                simulated.fill(at, ROOTS)
            grown[kind] = at.used_memory() - before
            trees = Trees(1_000)
            for columns, word in ((trees.inits(), "p"), (trees.acks(), "p"), (trees.last_acks(), "a")):
                at.run(at.prepare(columns), word)
            at.close()
    assert grown["simulated"] == pytest.approx(grown["emitted"], rel=0.15)
