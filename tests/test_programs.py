"""A run says which of its tests this machine cannot run."""

import shutil
from pathlib import Path

import pytest

from tests.support.programs import PROGRAMS, ROOT, left_out, needed

TESTS = ROOT / "tests"
NODE = "the JavaScript of the pages and of /ui/: node is not installed (on Debian: apt-get install nodejs)"


@pytest.fixture(autouse=True)
def _only_node_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "node" else f"/bin/{name}")


@pytest.mark.parametrize(
    ("chosen", "ignored", "said"),
    [
        ([TESTS], [], [NODE]),
        ([TESTS / "docs" / "test_anchors.py"], [], [NODE]),
        ([TESTS / "unit"], [], []),
        ([TESTS], [TESTS / "docs"], [NODE]),
        ([TESTS], [TESTS / "docs", TESTS / "integration"], []),
    ],
)
def test_what_is_left_out_of_the_chosen_tests_is_said(chosen: list[Path], ignored: list[Path], said: list[str]) -> None:
    assert left_out(chosen, ignored) == said


def test_what_is_missing_is_skipped_with_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="apt-get install nodejs"):
        needed("node")


def test_what_is_missing_in_ci_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="apt-get install nodejs"):
        needed("node")


def test_a_program_that_is_there_is_found() -> None:
    assert needed("curl") == "/bin/curl"


def test_each_program_is_needed_by_tests_that_exist() -> None:
    assert [path for program in PROGRAMS for path in program.tests if not (ROOT / path).exists()] == []
