"""Resets the timeout of a tuple in a task."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from acker_client._core.keep_alive import MIN_INTERVAL_S, reset_interval
from acker_client.errors import AckerError, NotFound, TupleClosed

if TYPE_CHECKING:
    from acker_client.roots import AsyncRoots
    from acker_client.topologies import AsyncTopologies
    from acker_client.tuple import AsyncTuple

_log = logging.getLogger("acker_client")


@asynccontextmanager
async def kept_alive(tup: "AsyncTuple", *, topologies: "AsyncTopologies", roots: "AsyncRoots") -> AsyncIterator[None]:
    """Reset the timeout of the tuple's roots while the block runs, as `acker_client.sync.keep_alive`."""
    task = asyncio.get_running_loop().create_task(_keep_alive(tup, topologies, roots))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _keep_alive(tup: "AsyncTuple", topologies: "AsyncTopologies", roots: "AsyncRoots") -> None:
    interval = None
    while True:
        try:
            await tup.reset_timeout()
            if interval is None:
                topology = await topologies.get(tup.topology)
                found = [await roots.get(f"{anchor.root_id:016x}") for anchor in tup.anchors.anchors]
                interval = reset_interval(topology, found, now_s=time.time())
        except TupleClosed:
            return
        except NotFound:
            pass
        except AckerError as error:
            _log.warning("the timeout of %s was not reset: %s", tup, error)
        await asyncio.sleep(interval or MIN_INTERVAL_S)
