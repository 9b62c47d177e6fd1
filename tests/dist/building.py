"""Builds the distributions with `make dist`, in copies of the repository."""

import os
import shutil
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = {"acker_client": "client", "acker_service": "service", "acker_spark": "spark_connector"}
"""The name of a distribution in the names of its files, and its folder in the repository."""

TYPESCRIPT = "client/typescript"
_PACKAGES = f"{TYPESCRIPT}/node_modules"

_COPIED = (*FOLDERS.values(), "Makefile", "README.md", "docs", "requirements.lock")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info", "node_modules", "target", "compiled")


def copy_repository(to: Path) -> Path:
    """Copy what `make dist` reads, with a `.venv` in which it finds its build backend and no other program.

    The packages of npm are those of the repository, where npm is installed.
    """
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=_LEFT_OUT)
        else:
            to.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, to / name)
    programs = to / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "uv-build").symlink_to(Path(sys.executable).with_name("uv-build"))
    (programs / "python").symlink_to("/bin/false")  # `make dist` must find that nothing is to be installed
    (to / ".venv" / ".runtime").touch()
    if shutil.which("npm"):
        subprocess.run(["make", "--silent", f"{_PACKAGES}/.package-lock.json"], cwd=ROOT, check=True, timeout=300)
        (to / _PACKAGES).symlink_to(ROOT / _PACKAGES)
    return to


def make_dist(repository: Path, *, umask: int = 0o022) -> dict[str, Path]:
    """Build the distributions of a copy, and return the files made, by name."""
    made = subprocess.run(
        ["make", "dist"], cwd=repository, umask=umask, capture_output=True, text=True, check=False, timeout=600
    )
    assert made.returncode == 0, made.stderr
    return {file.name: file for file in (repository / "dist").iterdir()}


def touch_all(repository: Path, *, at: float) -> None:
    """Give every source file another time, and every package a file that an interpreter or a compiler leaves there."""
    for folder in FOLDERS.values():
        for file in [file for file in (repository / folder).rglob("*") if file.is_file()]:
            os.utime(file, (at, at))
        for package in (repository / folder / "src").iterdir():
            (package / "__pycache__").mkdir()
            (package / "__pycache__" / "left.cpython-311.pyc").write_bytes(b"left")
    compiled = repository / "client/src/acker_client/_core/compiled/0123456789abcdef"
    compiled.mkdir(parents=True)
    (compiled / "hot_path.cpython-311-x86_64-linux-gnu.so").write_bytes(b"of this machine")


def wheel_of(built: dict[str, Path], name: str) -> Path:
    """Find the wheel of a distribution."""
    (found,) = (file for file in built.values() if file.name.startswith(f"{name}-") and file.suffix == ".whl")
    return found


def metadata(wheel: Path) -> Message:
    """Read the metadata of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())
