"""An ``acker serve`` that a signal hits at one step of a delivery: ``python dying.py STEP SIGNAL FILE …``.

The step is named ``before take``, ``after take`` and so on. The process sends itself the signal where the step is first
reached while FILE is there; the file goes before.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from acker_service.__main__ import cli
from acker_service.delivery.posting import Destination
from acker_service.store.deliveries import Deliveries
from acker_service.store.shards import Shards


def _always(*_: Any) -> bool:
    return True


def _settles(_: Any, __: Any, function: str, *___: Any) -> bool:
    return function == "acker_settle_v1"


_PLACES: dict[str, tuple[type, str, Callable[..., bool]]] = {
    "take": (Deliveries, "take", _always),
    "post": (Destination, "post", _always),
    "settle a shard": (Shards, "ask", _settles),
    "settle": (Deliveries, "settle", _always),
    "leave": (Deliveries, "leave", _always),
}
STEPS = tuple(f"{when} {what}" for what in _PLACES for when in ("before", "after"))
"""All steps of the way of a completion to its webhook."""


def install(step: str, number: int, trap: Path) -> None:
    """Set the trap at a step."""
    when, _, what = step.partition(" ")
    owner, name, applies = _PLACES[what]
    method = getattr(owner, name)

    def spring() -> None:
        if trap.exists():
            trap.unlink()
            os.kill(os.getpid(), number)

    async def work(*args: Any, **options: Any) -> Any:
        applied = applies(*args)
        if applied and when == "before":
            spring()
        result = await method(*args, **options)
        if applied and when == "after":
            spring()
        return result

    setattr(owner, name, work)


if __name__ == "__main__":
    at, by, file, *arguments = sys.argv[1:]
    install(at, signal.Signals[by], Path(file))
    sys.argv = ["acker", *arguments]
    cli()
