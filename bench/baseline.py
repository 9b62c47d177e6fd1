"""Runs the code of an earlier commit beside the present one, so that both are measured in one run."""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TypeVar

from bench.measure import Series
from bench.table import Line, Skipped

COMMIT = "7da1270"
"""The last commit that had several ways for one thing: a fast path beside FastAPI's routes, two transports in the
client."""
NAME = f"commit {COMMIT}"
MISSING = f"{NAME} is not in this clone (a shallow one: git fetch --unshallow)"
SLOWER = 1.03
"""What the present code may take, as a ratio to the commit, in the round in which it took least."""
ROOT = Path(__file__).parent.parent
_PARTS = (".", "client/src", "service/src")

T = TypeVar("T")


def codes(folder: Path) -> dict[str, Path]:
    """Return the root of each code by its name: the present one has none, and the commit is unpacked into a folder.

    A clone that lacks the commit has only the present code. The files of the commit are those of a worktree, but Git
    keeps no record of them, so nothing is left when a run is killed.
    """
    root = folder / "baseline"
    return {"": ROOT, NAME: root} if unpack(COMMIT, root) else {"": ROOT}


def unpack(commit: str, root: Path) -> bool:
    """Unpack the files of a commit into a folder; False where this clone lacks it."""
    archive = git("archive", commit)
    if archive:
        with tarfile.open(fileobj=BytesIO(archive)) as files:
            files.extractall(root, filter="data")
    return bool(archive)


def environment(root: Path) -> dict[str, str]:
    """Return the variables with which a Python imports the packages of a checkout, before those that are installed."""
    return {"PYTHONPATH": os.pathsep.join(str(root / part) for part in _PARTS)}


def packed_version(root: Path) -> int:
    """Ask the packages of a checkout which version of the packed form they read."""
    script = "from acker_protocol.wire import packed; print(packed.VERSION)"
    own = os.environ | environment(root)
    return int(subprocess.run([sys.executable, "-c", script], env=own, stdout=subprocess.PIPE, check=True).stdout)


def turns(codes: Mapping[str, T], number: int) -> list[tuple[str, T]]:
    """Return what is measured in a round, by the name of its code: the first one of a round is the last of the next."""
    return list(codes.items())[:: -1 if number % 2 else 1]


def series(taken: Mapping[str, Mapping[str, Iterable[float]]]) -> tuple[dict[str, Series], dict[str, Series]]:
    """Return the series of the present code by their keys, and those of the commit: none where it was not measured."""
    present, earlier = ({key: Series.of(values) for key, values in taken.get(code, {}).items()} for code in ("", NAME))
    return present, earlier


def both(line: Line, earlier: Series | None, *, ratio_at_most: float | None = None) -> tuple[Line, Line | Skipped]:
    """Return a line, and its figure beside that of the commit.

    ``earlier`` None: the commit was not measured, and the second line says why. ``ratio_at_most`` is what is to be
    reached, as a ratio to the commit; without it the present code must not be slower in all of the rounds.
    """
    what = f"{line.what}, beside {NAME}"
    if earlier is None:
        return line, Skipped(group=line.group, what=what, why=MISSING)
    return line, Line(
        group=line.group, what=what, unit=line.unit, measured=line.measured, beside=NAME, base=earlier,
        ratio_at_most=ratio_at_most, lowest_ratio_at_most=SLOWER if ratio_at_most is None else None, window=line.window,
    )  # fmt: skip


def head() -> str:
    """Return the short name of the commit that is checked out."""
    return git("rev-parse", "--short", "HEAD").decode().strip() or "unknown"


def git(*arguments: str) -> bytes:
    """Return what Git prints; nothing where it fails or is not installed."""
    git = shutil.which("git")
    ended = git and subprocess.run([git, *arguments], cwd=ROOT, capture_output=True, check=False)
    return ended.stdout if ended and not ended.returncode else b""
