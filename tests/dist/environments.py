"""Environments in which nothing but a Python is installed, one for each Python that is here."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.dist.building import ROOT

RELEASED = range(11, 16)
"""The releases of Python 3 that the distributions are for, as far as they are out."""

_USABLE = "import ensurepip, ssl, venv"


def interpreters() -> dict[int, Path | None]:
    """Find a Python of each release from 3.11 on, also of one that is not out yet; None for a release that is not here.

    It is that of the tests, on the PATH, or one that pyenv has.
    """
    candidates: dict[int, list[Path]] = {minor: [] for minor in RELEASED}
    candidates.setdefault(sys.version_info.minor, []).append(Path(sys.executable).resolve())
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders = [*map(Path, os.get_exec_path()), *sorted(pyenv.glob("versions/*/bin"))]
    for python in (each for folder in folders for each in sorted(folder.glob("python3.*"))):
        named = re.fullmatch(r"python3\.(\d+)", python.name)
        if named and int(named[1]) >= RELEASED.start:
            candidates.setdefault(int(named[1]), []).append(python)
    return {minor: next(filter(_is_usable, found), None) for minor, found in sorted(candidates.items())}


def _is_usable(python: Path) -> bool:
    return subprocess.run([python, "-c", _USABLE], capture_output=True, check=False, timeout=60).returncode == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A virtual environment, and the folder in which its programs run."""

    folder: Path
    cwd: Path
    constraints: Path

    def run(self, *command: str, timeout: float = 600) -> "subprocess.CompletedProcess[str]":
        """Run a program of the environment to its end."""
        return subprocess.run(
            command, cwd=self.cwd, env=self.variables(), capture_output=True, text=True, check=False, timeout=timeout
        )

    def paste(self, commands: str) -> str:
        """Run commands of a page, and return what they printed."""
        ended = self.run("bash", "-euc", commands)
        assert ended.returncode == 0, f"{commands}\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout

    def variables(self) -> dict[str, str]:
        """Return variables that know nothing of the environment of the tests, but how pip reaches its index."""
        own = ("ACKER_", "PYTHON", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        path = f"{self.folder / 'bin'}{os.pathsep}{os.defpath}"
        return kept | {"PATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PIP_CONSTRAINT": str(self.constraints)}


def make_environment(python: Path, folder: Path, *, cwd: Path) -> Environment:
    """Make an empty environment. What pip chooses there is what the project's own lock chose."""
    subprocess.run([python, "-m", "venv", folder], check=True, timeout=100)
    constraints = folder / "constraints.txt"
    locked = (ROOT / "requirements-dev.lock").read_text()
    pinned = re.findall(r"^([\w.-]+==\S+(?: ;[^\\\n]*)?)", locked, re.MULTILINE)
    constraints.write_text("\n".join(each.strip() for each in pinned) + "\n")
    return Environment(folder=folder, cwd=cwd, constraints=constraints)
