"""Declares path and query parameters: names, root ids, numbers, cursors."""

from typing import Annotated

from acker_protocol.wire.fields import LIMIT, WAIT_MS
from fastapi import Path, Query

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"

TopologyName = Annotated[str, Path(pattern=_NAME, description="A topology.")]
SpoutTask = Annotated[str, Path(pattern=_NAME, description="A spout task.")]
RootId = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$", description="A root id: 16 lowercase hex digits, not zero.")]
Limit = Annotated[int, Query(ge=LIMIT.start, le=LIMIT.stop - 1, description="How many at most.")]
WaitMs = Annotated[int, Query(ge=WAIT_MS.start, le=WAIT_MS.stop - 1, description="How long to wait, at most.")]
After = Annotated[str | None, Query(description="A cursor; left out: from the oldest not yet released.")]
Until = Annotated[
    str | None,
    Query(description="A cursor: only what comes up to it, and nothing is waited for. Not for events."),
]
Force = Annotated[bool, Query(description="End what is pending; go once all completions were released.")]
Discard = Annotated[bool, Query(description="Go whatever is left; what was not read is lost, and counted.")]
