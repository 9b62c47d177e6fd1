"""The demo's own acker: ``acker serve`` with the embedded store, on a free port, its data in a folder."""

import asyncio
import contextlib
from pathlib import Path

import httpx
from acker_client import Acker

from examples.support.ports import free_port
from examples.word_count.plan import Plan
from examples.word_count.processes import Died, Processes
from examples.word_count.workers import Location

TRIES, EVERY_S = 600, 0.05
"""How often, and how often in a second, a starting acker is asked whether it is ready."""


async def start_acker(processes: Processes, data_dir: Path) -> str:
    """Start the acker, wait until it is ready, and give its address. Raises `Died` if it does not get there."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    await processes.start_acker("--port", str(port), "--data-dir", str(data_dir))
    async with httpx.AsyncClient(trust_env=False) as http:
        for _ in range(TRIES):
            if await _is_ready(http, url):
                return url
            await asyncio.sleep(EVERY_S)
    raise Died(f"the acker was not ready within {TRIES * EVERY_S:.0f} s")


def create_topology(plan: Plan, location: Location) -> None:
    """Create a topology with the short message timeout of the plan."""
    with Acker(location.acker) as acker:
        acker.topologies.create(
            location.topology, message_timeout=plan.message_timeout_ms / 1000, max_spout_pending=plan.max_pending
        )


async def _is_ready(http: httpx.AsyncClient, url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return (await http.get(f"{url}/readyz")).is_success
    return False
