"""Runs a script that measures with the code of a checkout: `bench.redis_agent`, `bench.client_agent`.

A script uses only what both codes have. It reads one command a line, a list in JSON, and answers each with a line.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

from bench import baseline


class Agent:
    """A process that measures with one code."""

    def __init__(self, script: Path, task: dict[str, Any], code: Path) -> None:
        own = os.environ | baseline.environment(code)
        command = [sys.executable, "-P", str(script), json.dumps(task)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=own)

    def ask(self, *command: str | int) -> dict[str, float]:
        """Let it do something, named first, and return what it took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(command)}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the agent ended with {self._process.wait()}")
        return cast("dict[str, float]", json.loads(answer))

    def close(self) -> None:
        """End it."""
        with self._process:  # closes its pipes and waits
            self._process.kill()
