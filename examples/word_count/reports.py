"""Reports from a process to its supervisor: one JSON object per line of standard output."""

import json
from typing import Any


def report(**fields: Any) -> None:
    """Send a report to the supervisor."""
    print(json.dumps(fields), flush=True)


def read_report(line: bytes) -> dict[str, Any]:
    """Read a report."""
    fields = json.loads(line)
    assert isinstance(fields, dict), fields
    return fields
