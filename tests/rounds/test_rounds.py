"""A round of `make faults-long` with few faults keeps the promise, and finds each known mistake."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.faults_long.known_bad import KNOWN_BAD
from tests.faults_long.round import run
from tests.faults_long.schedule import Fault, Round

pytestmark = pytest.mark.timeout(600)

RATE = 600.0
KINDS = ("service killed", "answers of the store dropped", "server of the store killed")
ROUND = Round(
    number=0,
    seed=1,
    store="valkey",
    processes=1,
    faults=tuple(Fault(kind=kind, which=0.0, how_long=0.3, after_s=1.0) for kind in KINDS),
)


def test_a_round_of_faults_keeps_the_promise(tmp_path: Path) -> None:
    found = run(ROUND, tmp_path / "round", commit="", rate=RATE, drivers={})
    assert found.is_kept, (found.not_settled, found.clauses)
    assert found.faults == dict.fromkeys(KINDS, 1)
    assert {"acked", "failed", "timed_out"} == found.outcomes.keys()
    assert not (tmp_path / "round").exists()


@pytest.mark.parametrize("mistake", KNOWN_BAD)
def test_a_round_finds_a_known_mistake(tmp_path: Path, mistake: str) -> None:
    program = ("-m", "tests.faults_long.broken", json.dumps(asdict(KNOWN_BAD[mistake])))
    brief = replace(ROUND, faults=ROUND.faults[1:2])
    found = run(brief, tmp_path / "round", commit="", rate=RATE, drivers={}, program=program)
    assert any(found.clauses.values())
    assert "times in ms" in (tmp_path / "round" / "broken.txt").read_text()
