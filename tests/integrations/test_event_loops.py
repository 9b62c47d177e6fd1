"""An async client in event loops that end: with a real acker, and its Redis for those who subscribe."""

import asyncio
import subprocess
import sys
from pathlib import Path

from acker_client import Acker, AsyncAcker

from tests.support.servers import AckerProcess, acker_serve, valkey

PROGRAM = """
import asyncio
import os
import sys

from acker_client import AsyncAcker

acker = AsyncAcker(*sys.argv[1:])


async def run_tree(name):
    async with acker.shared_spout("orders").emit(name) as root:
        headers = root.headers()
    async with acker.receive(headers, component="charge"):
        pass


for number in range(3):
    asyncio.run(run_tree(f"{number}"))
if not os.fork():
    asyncio.run(run_tree("of a fork"))
    os._exit(0)
os.wait()
os._exit(0)  # as a process of a pool ends, without what is registered for its exit
"""


def test_each_loop_delivers_its_acks_before_it_ends(process: AckerProcess, client: Acker) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM, process.url, client.topology], check=True, timeout=100)
    ended = {
        completion.message_id: completion.outcome for completion in client.shared_spout("orders").completions(until=0)
    }
    assert ended == dict.fromkeys(["0", "1", "2", "of a fork"], "acked")


def test_a_spout_subscribes_in_each_loop(tmp_path: Path) -> None:
    """One client emits in a loop, and subscribes in the next."""
    with valkey(tmp_path / "valkey") as redis, acker_serve(tmp_path, "--redis-url", redis.url) as acker:
        client = AsyncAcker(acker.url, linger=0)
        spout = client.shared_spout("orders")

        async def run_tree(name: str) -> None:
            async with spout.emit(name) as root:
                headers = root.headers()
            await client.receive(headers, component="charge").ack()

        async def subscribe() -> str | None:
            found: list[str | None] = []
            async with asyncio.timeout(60):
                async for completion in spout.subscribe(redis.url, stop=lambda: bool(found)):
                    found.append(completion.message_id)  # noqa: PERF401 - stop() looks at it
            return found[0]

        for name in ("a", "b", "c"):
            asyncio.run(run_tree(name))
            assert asyncio.run(subscribe()) == name
        asyncio.run(client.close())
