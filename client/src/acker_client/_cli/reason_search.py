"""The search for the line of an output that says why a command failed."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

LIMIT_S = 10.0
"""How long a search may take: most of it is the start of Python on a machine that is busy."""

SEARCH = """
import json, re, signal, sys
wanted = json.load(sys.stdin)
signal.alarm(wanted["alarm_s"])
print(next(at for at, line in enumerate(wanted["lines"]) if re.search(wanted["expression"], line)))
"""
"""Prints the place of the first line in which the expression is found. The alarm ends it where nobody waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonSearch:
    """Looks for a regular expression of Python in lines, in a process of its own, for ``limit_s`` seconds at most.

    While Python looks for an expression no other thread runs, nor any handler of signals, and one that backtracks may
    not end in a lifetime. ``interpreter`` is the Python that looks.
    """

    expression: str
    limit_s: float = LIMIT_S
    interpreter: str = sys.executable

    def find(self, lines: Sequence[str]) -> str:
        """Return the first line in which it is found; empty if it is in none, or not found in time."""
        wanted = {"expression": self.expression, "lines": lines, "alarm_s": int(self.limit_s) + 1}
        try:
            found = subprocess.run(
                [self.interpreter, "-I", "-S", "-c", SEARCH],
                input=json.dumps(wanted).encode(),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=self.limit_s,
                start_new_session=True,  # the terminal's signals are for the command
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return ""
        return lines[int(found.stdout)]
