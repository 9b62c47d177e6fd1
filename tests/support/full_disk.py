"""A small disk of its own for a store, in memory, which can be filled; and what the store needs after that."""

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import redis

from bench.servers import Member, until

LEFT_BYTES = 4_096
"""What a full disk has left."""

FILLER = "filler"


@contextlib.contextmanager
def small_disk(folder: Path, *, size_mib: int) -> Iterator[Path]:
    """Mount a disk on a folder until the block is left; it is a plain folder for who may not mount."""
    folder.mkdir(parents=True)
    is_mounted = os.geteuid() == 0 and _run("mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        if is_mounted:
            _run("umount", "--lazy", str(folder))


@contextlib.contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Leave next to no room on a disk until the block is left."""
    filler, size = disk / FILLER, 0
    try:
        with filler.open("wb") as file:
            while (room := _room(disk) - LEFT_BYTES) > 0:
                try:
                    os.posix_fallocate(file.fileno(), size, room)
                    size += room
                except OSError as error:
                    if error.errno != errno.ENOSPC:  # then another process took some of the room
                        raise
        yield
    finally:
        filler.unlink(missing_ok=True)


def _room(disk: Path) -> int:
    status = os.statvfs(disk)
    return status.f_bavail * status.f_frsize


def writes(member: Member) -> bool:
    """Whether a server writes its append-only file."""
    return "aof_last_write_status:ok" in member.info("INFO", "persistence")


def rewrite(member: Member, *, within: float) -> None:
    """Let a server rewrite its append-only file; a rewrite under way may have begun before the disk was full."""
    until(lambda: _begins_rewrite(member), "a rewrite of the append-only file begins", within=within)
    until(lambda: _is_rewritten(member), "the append-only file is rewritten", within=within)


def _begins_rewrite(member: Member) -> bool:
    """Ask for a rewrite; whether one begins."""
    with contextlib.suppress(redis.ResponseError):  # one is under way
        member.ask("BGREWRITEAOF")
        return True
    return False


def _is_rewritten(member: Member) -> bool:
    """Whether no rewrite is under way or still to begin, and the last one succeeded."""
    said, ended = member.info("INFO", "persistence"), ("rewrite_in_progress:0", "rewrite_scheduled:0")
    return all(f"aof_{each}" in said for each in (*ended, "last_bgrewrite_status:ok"))


def _run(*command: str) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
