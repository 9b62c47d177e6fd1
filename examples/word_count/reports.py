"""Knows how a process tells its supervisor something: one JSON object per line, on its standard output."""

import json
from typing import Any


def report(**told: Any) -> None:
    """Tell the supervisor."""
    print(json.dumps(told), flush=True)


def read_report(line: bytes) -> dict[str, Any]:
    """Read what a process told."""
    told = json.loads(line)
    assert isinstance(told, dict), told
    return told
