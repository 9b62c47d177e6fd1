"""The lanes of `make test-all`, with harmless targets."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import lanes
from tests.support.waiting import eventually_true

TARGETS = """
passes:
	@echo "===== 3 passed in 0.01s ====="
fails:
	@while ! test -s pids; do sleep 0.05; done; echo the reason; exit 3
# one of its processes leaves the session and ignores SIGTERM
lasts:
	@setsid sh -c 'trap "" TERM INT; echo $$$$ >>pids; while :; do sleep 0.1; done' & sleep 600
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Makefile").write_text(TARGETS)
    return tmp_path


@contextlib.contextmanager
def started(folder: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, str(Path(lanes.__file__)), "--logs", "logs", *options]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        yield process


def left(folder: Path) -> list[int]:
    """The processes of the target `lasts` that still run."""
    return [int(pid) for pid in (folder / "pids").read_text().split() if Path(f"/proc/{pid}").exists()]


def test_lanes_that_pass_print_the_closing_lines_of_pytest(folder: Path) -> None:
    with started(
        folder, "--quick", "passes", "--lane", "passes A=some/path", "passes A=1", "--lane", "passes A=2"
    ) as process:
        out = process.communicate(timeout=60)[0]
    assert process.returncode == 0
    assert out.count("\n===== 3 passed in 0.01s =====\n") == 4
    assert re.search(r"^== make passes A=1, \d+ s after the beginning$", out, re.MULTILINE)
    assert out.splitlines()[-1].startswith("== all passed in ")


def test_a_target_that_fails_ends_the_other_lane_and_its_log_comes_last(folder: Path) -> None:
    with started(folder, "--quick", "passes", "--lane", "lasts", "--lane", "fails", "passes") as process:
        out = process.communicate(timeout=60)[0]
    assert process.returncode == 1
    last = out.partition("== make fails failed with code ")[2].splitlines()[1:]
    assert last[0] == "the reason"
    assert "Error 3" in last[-1]
    assert left(folder) == []


def test_no_lane_begins_when_a_quick_target_fails(folder: Path) -> None:
    (folder / "pids").write_text("0")
    with started(folder, "--quick", "fails", "passes", "--lane", "passes") as process:
        out = process.communicate(timeout=60)[0]
    assert process.returncode == 1
    assert "make passes" not in out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_processes(folder: Path, number: signal.Signals) -> None:
    with started(folder, "--quick", "passes", "--lane", "lasts", "--lane", "lasts") as process:
        eventually_true(lambda: (folder / "pids").exists() and len(left(folder)) == 2)
        os.kill(process.pid, number)
        process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert left(folder) == []
