"""A small disk of its own for the store of a round, in memory, which can be filled without harm."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

SIZE_MIB = 768


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a disk on a folder until the block is left; it is a plain folder for who may not mount."""
    folder.mkdir(parents=True)
    is_mounted = os.geteuid() == 0 and _run("mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        if is_mounted:
            _run("umount", "--lazy", str(folder))


def _run(*command: str) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
