"""Tests the search for the line that says why a command failed: it stops nothing else, and it has an end."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from acker_client._cli.reason_search import ReasonSearch

from tests.support.waiting import eventually_true

WAITS = """#!/bin/sh
echo $$ > {folder}/searching
until test -e {folder}/go; do sleep 0.02; done
echo 1
"""
"""In place of Python: a search that goes on until somebody lets it find the second line."""

RUN = """
import os, sys
from acker_client._cli.command import Command
from acker_client._cli.reason_search import ReasonSearch

search = ReasonSearch(expression="error", limit_s=float(sys.argv[2]), interpreter=sys.argv[1])
command = Command(["sh", "-c", sys.argv[3]], environment=os.environ, keep_reason=True, search=search)
ended = command.wait()
print(ended.exit_code, ended.reason)
"""
"""A command, with a search that takes its time."""


@pytest.fixture
def slow(tmp_path: Path) -> str:
    """An interpreter with which every search goes on until the file ``go`` is there."""
    file = tmp_path / "slow"
    file.write_text(WAITS.format(folder=tmp_path))
    file.chmod(0o755)
    return str(file)


def is_alive(process_id: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(process_id, 0)
        return True
    return False


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("^error", "error: 关羽"),
        ("bye$", "bye"),
        ("(?i)ERROR: (?=关)", "error: 关羽"),
        ("never", ""),
        ("\udcff|by", "bye"),
    ],
)
def test_the_first_line_with_the_expression_is_found(expression: str, found: str) -> None:
    lines = ["an error", "error: 关羽", "bye", "error: early"]
    assert ReasonSearch(expression=expression, limit_s=120).find(lines) == found
    assert ReasonSearch(expression=expression, limit_s=120).find([]) == ""


def test_a_search_without_an_end_is_given_up_and_ended(slow: str, tmp_path: Path) -> None:
    found, limit_s = tmp_path / "searching", 1
    while not found.exists():  # a slow machine has no time to start it in a short one
        limit_s *= 2
        assert ReasonSearch(expression="error", limit_s=limit_s, interpreter=slow).find(["error"]) == ""
    assert not is_alive(int(found.read_text()))


@pytest.mark.parametrize("interpreter", ["", "/no/such/python", "false"])
def test_a_search_that_cannot_be_made_finds_nothing(interpreter: str) -> None:
    assert ReasonSearch(expression="error", interpreter=interpreter).find(["error"]) == ""


def test_other_threads_run_while_a_line_is_looked_for(slow: str, tmp_path: Path) -> None:
    def let_it_end() -> None:
        eventually_true((tmp_path / "searching").exists)
        (tmp_path / "go").touch()

    other = threading.Thread(target=let_it_end)
    other.start()
    assert ReasonSearch(expression="error", limit_s=120, interpreter=slow).find(["bye", "error"]) == "error"
    other.join()


@pytest.mark.parametrize(("limit_s", "reason"), [("120", "error: card"), ("0.5", "bye")])
def test_what_a_command_prints_and_its_signals_do_not_wait_for_the_search(
    slow: str, tmp_path: Path, limit_s: str, reason: str
) -> None:
    script = "trap 'echo error: card >&2; echo bye >&2; exit 3' TERM; echo ready; while :; do sleep 0.02; done"
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", RUN, slow, limit_s, script], stdout=pipe, stderr=pipe, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert [process.stderr.readline() for _ in range(2)] == ["error: card\n", "bye\n"]  # before a line is looked at
    if reason != "bye":
        eventually_true((tmp_path / "searching").exists)
        process.send_signal(signal.SIGTERM)  # ends neither the search nor the process
        (tmp_path / "go").touch()
    assert process.communicate(timeout=250) == (f"3 {reason}\n", "")
