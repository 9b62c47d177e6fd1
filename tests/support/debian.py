"""Programs of a Debian that this machine is not: its packages are unpacked into a cache, and not installed."""

import fcntl
import re
import shutil
import subprocess
from pathlib import Path

import platformdirs

TIMEOUT_S = 300
"""Unpacking takes six seconds and 41 MB, once it is downloaded."""


class Missing(Exception):
    """Packages that cannot be had here; the message says what to do."""


def mirror() -> str:
    """Return the address where this machine gets its packages from."""
    for file in (*Path("/etc/apt/sources.list.d").glob("*debian*.sources"), Path("/etc/apt/sources.list")):
        if file.exists() and (found := re.search(r"^(?:URIs:|deb(?: \[.*\])?) (\S+)", file.read_text(), re.MULTILINE)):
            return found[1]
    raise RuntimeError("apt names no source of Debian's packages")


def redis8() -> Path:
    """Return a Redis 8.0, which Debian 13 has: a script that starts it. Unpacked once; raises `Missing`.

    The package redis-tools holds the whole server, which goes by the name it is called by. It runs by the loader and
    the libraries that it is unpacked with, because those of this machine may be older.
    """
    folder = platformdirs.user_cache_path("acker-redis8")
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "redis-server"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _unpack(folder / "root", "trixie", "redis-tools")
            _write_start(program, folder / "root")
    return program


def _unpack(root: Path, suite: str, package: str) -> None:
    """Unpack a package and what it depends on."""
    if shutil.which("mmdebstrap") is None:
        raise Missing("apt-get install mmdebstrap")
    shutil.rmtree(root, ignore_errors=True)
    how = ["--quiet", "--variant=extract", "--format=directory", f"--include={package}"]
    without = ["--dpkgopt=path-exclude=/usr/share/*", '--aptopt=Acquire::Retries "9"']
    command = ["mmdebstrap", *how, *without, suite, str(root), mirror()]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if ran.returncode != 0:
        raise Missing(f"mmdebstrap cannot unpack {package} of {suite}: {ran.stderr[-500:]}")


def _write_start(program: Path, root: Path) -> None:
    """Write the script last of all, and at once: where it is, what it starts is whole."""
    [loader] = root.glob("usr/lib/*-linux-gnu/ld-linux-*.so.*")
    start = f"exec '{loader}' --argv0 redis-server --library-path '{loader.parent}' '{root}/usr/bin/redis-check-rdb'"
    draft = program.with_suffix(".draft")
    draft.write_text(f'#!/bin/sh\n{start} "$@"\n')
    draft.chmod(0o755)
    draft.rename(program)
