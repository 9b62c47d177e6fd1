"""The rules of `acker doctor` find what tests/support/doctor_cases.json says; the page has the same cases."""

import json
from pathlib import Path
from typing import Any

import pytest
from acker_client._cli.doctor.evidence import Evidence
from acker_client._cli.doctor.rules import RULES, judge

_TABLE = json.loads((Path(__file__).parents[3] / "support/doctor_cases.json").read_text())
CASES = {case["name"]: case for case in _TABLE["cases"]}
ENTRIES = [rule.__name__.replace("_", "-") for rule in RULES]


def merged(base: Any, changes: Any) -> Any:
    """Objects merge, all else replaces."""
    if not isinstance(base, dict) or not isinstance(changes, dict):
        return changes
    return base | {name: merged(base.get(name), value) for name, value in changes.items()}


def evidence(case: dict[str, Any]) -> Evidence:
    documents = merged(_TABLE["base"], case["changes"])
    return Evidence(**{name: value for name, value in documents.items() if value is not None})


@pytest.mark.parametrize("name", CASES)
def test_the_rules_find_what_the_table_says(name: str) -> None:
    assert [finding.document() for finding in judge(evidence(CASES[name]))] == CASES[name]["findings"]


def test_every_rule_finds_something_in_some_case_and_bears_the_name_of_its_entry() -> None:
    found = {finding["rule"] for case in CASES.values() for finding in case["findings"]}
    assert found == set(ENTRIES)
    assert len(ENTRIES) == 13


def test_a_rule_that_is_switched_off_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acker_client._cli.doctor.rules.RULES", RULES[1:])
    missed = [name for name, case in CASES.items() if len(judge(evidence(case))) != len(case["findings"])]
    assert [name for name in missed if not name.startswith("nothing end")] == []
    assert missed
