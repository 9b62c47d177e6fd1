"""docs/trust.md is what its program makes of the results that are kept, and each test that it names exists."""

import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from docs.trust import dependencies, page, results, timing
from tests.model import mutation_results
from tests.support.pages import ROOT

ATTACKS = tomllib.loads(page.ATTACKS.read_text(encoding="utf-8"))
RUN = {
    "command": "make it",
    "date": "2026-11-30",
    "took_s": 7_300.0,
    "seed": 5,
    "commit": "abc",
    "machine": {"a": "one"},
}
FAULTS = {
    "faults": {"service killed": 700, "store killed": 301},
    "clients": {"Python": 4, "Go": 2},
    "stores": {"one": 1_001},
    "operations": 5_000_000,
    "roots": 900_000,
    **dict.fromkeys(("lost", "early", "twice", "premature", "not_linearizable"), 0),
    "latest_timeout_s": 0.61,
    "rounds": 6,
    "rounds_with_own_clocks": 2,
    "clocks_stepped_by_s": 2.0,
}
SOAK = {
    "minutes": 60,
    "rate": 9_000,
    **{at: {"memory": 2.5} for at in page.SOAKED},
    "keys_left": [],
    "grown": [],
}
MUTATIONS = {"made": {"a.lua": 3}, "noticed": {"a.lua": 2}, "unnoticed": ["a rule"]}
WHOLE: dict[str, dict[str, Any]] = {"faults": FAULTS, "soak": SOAK, "mutations": MUTATIONS}


def test_the_page_is_what_its_program_makes_of_the_results() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.write(), "run: make trust"


@pytest.mark.parametrize("test", sorted(set(page.tests(ATTACKS))))
def test_every_test_that_it_names_exists(test: str) -> None:
    path, _, function = test.partition("::")
    assert (ROOT / path).exists()
    assert not function or re.search(rf"^ *(async )?def {function}\(", (ROOT / path).read_text(), re.MULTILINE)


def test_each_clause_of_the_promise_is_on_it() -> None:
    promised = re.findall(r"^\d\. \*\*(.*?)\.\*\*", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert [clause["name"] for clause in ATTACKS["clauses"]] == promised


def test_a_run_that_was_not_made_is_said_so(tmp_path: Path) -> None:
    text = page.write(tmp_path)
    assert text.count("this run has not been made") == len(page.SECTIONS)
    assert not any(f"## {title}\n" in text for title, _, _ in page.SECTIONS.values())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("faults", "**1,001 faults** while client processes (4 of Python and 2 of Go) send\n**5,000,000 operations**"),
        ("faults", "lost **0**, told too early **0**, told twice **0**"),
        ("faults", "0.61 s after its deadline"),
        ("faults", "*2026-11-30, commit `abc`, seed 5, 2.0 h; one: `make it`.*"),
        (
            "soak",
            "60 minutes at 9,000 operations a second, half of what it can do here: nothing grew, and no keys were left",
        ),
        ("mutations", "**2 of 3 were noticed**.\n- not noticed: a rule"),
    ],
)
def test_what_a_run_came_to_is_said(tmp_path: Path, name: str, said: str) -> None:
    results.keep(name, RUN, WHOLE[name], tmp_path)
    assert said in page.write(tmp_path)


def test_results_are_kept_and_read(tmp_path: Path) -> None:
    assert results.read("faults", tmp_path) is None
    results.keep("faults", RUN, {"lost": 0}, tmp_path)
    assert results.read("faults", tmp_path) == {"run": RUN, "lost": 0}


def test_every_result_that_is_kept_has_a_section() -> None:
    kept = {file.stem for file in results.RESULTS.glob("*.json")}
    assert kept <= set(page.SECTIONS)
    assert all("run" in json.loads(file.read_text()) for file in results.RESULTS.glob("*.json"))


def test_rules_that_were_broken_are_counted_by_their_file() -> None:
    test, mutants = next(iter(mutation_results.TESTS.items()))
    named = list(mutation_results.names(mutants))
    assert len(set(named)) == len(mutants)
    found = mutation_results.result({f"{test}[{name}]" for name in named[:-1]}, {test: mutants})
    assert (sum(found["made"].values()), sum(found["noticed"].values())) == (len(mutants), len(mutants) - 1)
    assert found["unnoticed"] == [mutants[-1].rule]


def test_the_tests_of_mutations_are_named_as_pytest_names_them(pytestconfig: pytest.Config) -> None:
    rules = [mutant.rule for mutants in mutation_results.TESTS.values() for mutant in mutants]
    assert [rule for rule in rules if not rule.isascii()] == []
    for test in mutation_results.TESTS:
        path, _, function = test.partition("::")
        assert f"def {function}(" in (ROOT / path).read_text()


def test_a_comparison_that_ends_at_a_difference_is_told_from_one_that_does_not() -> None:
    assert timing.estimate([1.0, -1.0, 0.0])[0] == 0.0
    assert timing.estimate([*([8.0, 8.1, 7.9] * 3), 9_000.0])[0] == pytest.approx(8.0, abs=0.1)
    seen = timing.measure("the control", *timing.comparisons()[timing.CONTROL], pairs=8)
    assert seen.is_control
    assert seen.first_ns < seen.last_ns
    for make, first, last in timing.comparisons().values():
        assert (make(first)() is None) == (make(last)() is None)
    assert timing.naive(b"ab", b"ab")
    assert not timing.naive(b"ab", b"ac")


def test_what_pip_audit_knows_is_told_from_what_it_does_not() -> None:
    packages = [
        {"name": "a", "version": "1", "vulns": [{"id": "CVE-1"}]},
        {"name": "b", "version": "2", "vulns": []},
        {"name": "c", "skip_reason": "unknown"},
    ]
    assert dependencies.judged(packages) == {"known": 2, "vulnerabilities": ["a 1: CVE-1"], "error": None}


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_run_goes_on_where_it_was_stopped_while_its_code_is_the_same(tmp_path: Path) -> None:
    file = tmp_path / "progress.json"
    results.Progress(file, ["LICENSE"]).add("one", {"inputs": 1}, took_s=2.0)
    again = results.Progress(file, ["LICENSE"])
    assert (again.done, again.took_s) == ({"one": {"inputs": 1}}, 2.0)
    assert results.Progress(file, ["README.md"]).done == {}
