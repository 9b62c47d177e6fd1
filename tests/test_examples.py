"""The examples are tests: each is run as a user runs it."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.keys import keys_file
from tests.support.servers import acker_serve

ROOT = Path(__file__).parents[1]
WORD_COUNT = (sys.executable, "-m", "examples.word_count")
PATIENCE_S = 100
"""Less than a test has before it is given up, so that what was started is ended."""

FEW_WORKERS = ("--split-workers", "1", "--count-workers", "1")
FEW_LINES = ("--lines", "60", "--hard-word", "light", "--message-timeout-ms", "1000")


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Where the demo makes its temporary folder; short, since a socket will lie in it."""
    with tempfile.TemporaryDirectory(prefix="w") as folder:
        yield Path(folder)


@contextmanager
def word_count(temporary: Path, *options: str) -> "Iterator[subprocess.Popen[str]]":
    """Run the word count, stopped by SIGTERM if it still runs at the end of the block."""
    environment = os.environ | {"TMPDIR": str(temporary)}
    pipe = subprocess.PIPE
    demo = subprocess.Popen([*WORD_COUNT, *options], stdout=pipe, stderr=pipe, text=True, cwd=ROOT, env=environment)
    with demo:
        try:
            yield demo
        finally:
            demo.terminate()


def processes_of(temporary: Path) -> list[bytes]:
    """The processes that were started with this temporary folder, or with a path in it (a Valkey hides the former)."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (process / "cmdline").read_bytes()
            if str(temporary).encode() in command + (process / "environ").read_bytes():
                found.append(command)
    return found


def test_the_tutorial_runs_on_the_acker_that_acker_url_names(tmp_path: Path) -> None:
    options = ("--data-dir", str(tmp_path / "data"), "--keys-file", str(keys_file(tmp_path, "admin")))
    with acker_serve(tmp_path, *options) as acker:
        environment = os.environ | {"ACKER_URL": acker.url, "ACKER_API_KEY": "admin"}
        command = [sys.executable, "-m", "examples.tutorial"]
        ended = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment, timeout=PATIENCE_S
        )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "line-1 acked None" in ended.stdout


def test_the_word_count_proves_itself_on_three_hundred_lines(temporary: Path) -> None:
    with word_count(temporary, "--lines", "300", "--max-pending", "60", "--message-timeout-ms", "2000") as demo:
        said, complaints = demo.communicate(timeout=PATIENCE_S)
    assert (demo.returncode, complaints) == (0, ""), said
    for claim in (
        "the word counts equal a plain count of the text: 3256 words, 659 different ones",
        "300 of 300 lines were acked",
        r"[1-4] lines failed, were replayed and then acked, .* by split: 'prism' is too hard the first time",
        r"\d+ lines timed out, were replayed and then acked",
        r"count-\d was killed with SIGKILL between counting \d+ words and acking them; line \d+, .* timed out",
        r"[1-9]\d* words came again in a replay, and none was counted twice",
    ):
        assert re.search(f"^  proven  {claim}", said, re.MULTILINE), said
    assert "The ten most frequent words: the 310, of 165, and 120," in said
    assert list(temporary.iterdir()) == []


def test_the_word_count_notices_a_word_that_is_acked_and_not_counted(temporary: Path) -> None:
    with word_count(temporary, *FEW_WORKERS, *FEW_LINES, "--drop-word", "light") as demo:
        said, _ = demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == 1
    assert "WRONG   the word counts differ from a plain count of the text in 1 words: 'light' 0 instead of 2" in said
    assert "proven  60 of 60 lines were acked" in said


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_the_word_count_leaves_nothing_behind_when_it_is_stopped(temporary: Path) -> None:
    with word_count(temporary, *FEW_WORKERS, "--keep-going") as demo:
        assert demo.stdout is not None
        next(line for line in demo.stdout if line.startswith("acked"))
        assert len(processes_of(temporary)) >= 6  # itself, the acker, its Valkey, two workers, the spout
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == 128 + signal.SIGINT
    assert processes_of(temporary) == []
    assert list(temporary.iterdir()) == []
