"""Installs what the peers need into `bench/tools`, which Git ignores; each part once."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TOOLS = HERE.parent / "tools"
NPM_PACKAGES = ("bullmq@6.7.0", "ioredis@6.0.0")


class MissingToolError(Exception):
    """A program that a peer needs is not on this machine; the message says which."""


def python() -> Path:
    """Return a Python with Dramatiq, Celery and what the client needs, apart from the one that runs the bench."""
    folder, lock = TOOLS / "python", HERE / "requirements.lock"
    program, done = folder / "bin" / "python", folder / ".installed"
    if not done.exists() or done.read_bytes() != lock.read_bytes():
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        pip = [str(program), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--no-deps", "--require-hashes", "--requirement", str(lock)])
        shutil.copy(lock, done)
    return program


def node() -> Path:
    """Return the folder in which Node finds BullMQ."""
    folder = TOOLS / "node"
    if not (folder / "node_modules" / "bullmq").exists():
        folder.mkdir(parents=True, exist_ok=True)
        _run(
            [_program("npm"), "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *NPM_PACKAGES]
        )
    return folder


def storm() -> Path:
    """Build Storm's topology with Maven, and return the folder of its jar and libraries."""
    folder, done = TOOLS / "storm", TOOLS / "storm" / ".built"
    sources = b"".join(path.read_bytes() for path in sorted((HERE / "storm").rglob("*.*")) if path.is_file())
    if not done.exists() or done.read_bytes() != sources:
        _program("java")
        shutil.copytree(HERE / "storm", folder, dirs_exist_ok=True)
        _run([_program("mvn"), "--quiet", "--batch-mode", "package"], folder)
        done.write_bytes(sources)
    return folder


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise MissingToolError(f"{name} is not on the PATH")
    return found


def _run(command: list[str], folder: Path | None = None) -> None:
    ended = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=os.environ | {"CI": "1"}
    )
    if ended.returncode:
        raise MissingToolError(
            f"{command[0]} ended with {ended.returncode}: {ended.stderr[-500:] or ended.stdout[-500:]}"
        )
