"""Runs the code of an earlier commit beside the present one, so that both are measured in one run."""

import contextlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

COMMIT = "64dbb5b"
"""The commit that is called today's code in the goals: the last one before single requests, batches, the store and the
client got their fast paths."""
NAME = f"commit {COMMIT}"
MISSING = f"{NAME} is not in this clone (a shallow one: git fetch --unshallow)"
ROOT = Path(__file__).parent.parent
_PARTS = (".", "client/src", "service/src")


@contextlib.contextmanager
def checkout(folder: Path) -> Iterator[Path | None]:
    """Unpack the files of `COMMIT` into a folder of their own; None where the clone lacks the commit.

    The files are those of a worktree, but Git keeps no record of them, so nothing is left when a run is killed.
    """
    archive = _git("archive", COMMIT)
    if not archive:
        yield None
        return
    root = folder / "baseline"
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(root, filter="data")
    yield root


def environment(root: Path) -> dict[str, str]:
    """Return the variables with which a Python imports the packages of a checkout, before those that are installed."""
    return {"PYTHONPATH": os.pathsep.join(str(root / part) for part in _PARTS)}


def head() -> str:
    """Return the short name of the commit that is checked out."""
    return _git("rev-parse", "--short", "HEAD").decode().strip() or "unknown"


def _git(*arguments: str) -> bytes:
    """Return what Git prints; nothing where it fails or is not installed."""
    git = shutil.which("git")
    ended = git and subprocess.run([git, *arguments], cwd=ROOT, capture_output=True, check=False)
    return ended.stdout if ended and not ended.returncode else b""
