"""An ``acker serve`` that a signal hits at one step of a delivery: run it as ``python dying.py FILE serve …``.

FILE names the step and the signal: ``after post SIGKILL``. Whoever comes to the step while FILE is there takes it
away and sends itself the signal. Here shards are settled one by one, and the lease is released behind them:
a connection may break between any two calls of one round trip.
"""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from acker_service.__main__ import cli
from acker_service.delivery.leases import LeaseStore
from acker_service.delivery.webhook_client import Endpoint
from acker_service.redis.calls import ShardCall
from acker_service.topologies.shards import ShardCallAt, Shards
from acker_service.topologies.topology import Topology


def _always(*_: Any) -> bool:
    return True


def _settles(_: Any, __: Any, ___: Any, call: ShardCall[Any]) -> bool:
    return call.function == "acker_settle_v2"


def _releases(_: Any, __: Any, ___: Any, call: ShardCall[Any]) -> bool:
    return call.function == "acker_leave_v1"


async def _call_one_by_one(
    shards: Shards, topology: Topology, calls: Sequence[ShardCallAt], *, then: ShardCallAt | None = None
) -> tuple[Topology, list[Any]]:
    replies = [(await shards.call(topology, shard, call))[1] for shard, call in calls]
    if then is not None:
        await shards.call(topology, *then)
    return topology, replies


_PLACES: dict[str, tuple[type, str, Callable[..., bool]]] = {
    "claim": (LeaseStore, "claim", _always),
    "post": (Endpoint, "post", _always),
    "settle a shard": (Shards, "call", _settles),
    "settle": (LeaseStore, "settle", _always),
    "release": (Shards, "call", _releases),
}
STEPS = tuple(f"{when} {what}" for what in _PLACES for when in ("before", "after"))
"""All steps of the way of a completion to its webhook."""


def _spring(step: str, trap: Path) -> None:
    """Take the trap, if it is there for this step, and the signal; of two processes one gets it."""
    try:
        wanted, _, number = trap.read_text().rpartition(" ")
        if wanted == step:
            trap.unlink()
            os.kill(os.getpid(), signal.Signals[number])
    except FileNotFoundError:
        return


def _guard(what: str, trap: Path) -> None:
    owner, name, applies = _PLACES[what]
    method = getattr(owner, name)

    async def work(*args: Any, **options: Any) -> Any:
        applied = applies(*args)
        if applied:
            _spring(f"before {what}", trap)
        result = await method(*args, **options)
        if applied:
            _spring(f"after {what}", trap)
        return result

    setattr(owner, name, work)


if __name__ == "__main__":
    file, *arguments = sys.argv[1:]
    Shards.call_at = _call_one_by_one  # type: ignore[method-assign]
    for place in _PLACES:
        _guard(place, Path(file))
    sys.argv = ["acker", *arguments]
    cli()
