"""Measures how fast requests are applied to a real Valkey: batches of 1,000 operations, and single acks many at a time.

Give the folders of other checkouts (`python -m bench.applying /path/to/other`) to compare this one with them, in turns:
the ratios are what to look at. Processor time is that of the service alone, the time on the wall has Valkey's in it.
"""

import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from acker_protocol.operations import Ack, Init, Operation
from acker_protocol.wire.packed import CONTENT_TYPE, encode_packed
from acker_service.components import Components
from acker_service.operations import decoding
from acker_service.operations.batch import OperationBatch, SingleOperation
from acker_service.operations.request import ApplyRequest
from acker_service.redis.embedded import EmbeddedServer

OPERATIONS = 1_000
TIMES = 40
ROUNDS = 5
HERE = Path(__file__).parent.parent


async def batches(parts: Components) -> None:
    """Inits and last acks of 500 roots, in one batch."""
    roots = [_id() for _ in range(OPERATIONS // 2)]
    inits: list[Operation] = [Init(root_id=root, ack_val=root, outstanding=1, spout_task="orders") for root in roots]
    acks: list[Operation] = [Ack(root_id=root, ack_val=root, outstanding=-1) for root in roots]
    await _apply(parts, decoding.decode(CONTENT_TYPE, encode_packed(inits + acks), max_operations=OPERATIONS))


async def singles(parts: Components) -> None:
    """Inits of 50 roots and their last acks, each in a request of its own."""
    roots = [_id() for _ in range(50)]
    await asyncio.gather(
        *(
            _apply(parts, SingleOperation(Init(root_id=root, ack_val=root, outstanding=1, spout_task="orders")))
            for root in roots
        )
    )
    await asyncio.gather(
        *(_apply(parts, SingleOperation(Ack(root_id=root, ack_val=root, outstanding=-1))) for root in roots)
    )


async def measure() -> dict[str, tuple[float, float]]:
    """Give, for each way, the median milliseconds of processor time and on the wall."""
    with tempfile.TemporaryDirectory() as folder:
        embedded = EmbeddedServer(Path(folder))
        await embedded.start()
        parts = Components(embedded.url, window_ms=600_000)
        await parts.open()
        measured = {way.__name__: await _measure(way, parts) for way in (batches, singles)}
        await parts.close()
        await embedded.stop()
    return measured


async def _measure(way: Callable[[Components], Awaitable[None]], parts: Components) -> tuple[float, float]:
    taken = []
    for _ in range(TIMES):
        cpu, wall = time.process_time(), time.perf_counter()
        await way(parts)
        taken.append(((time.process_time() - cpu) * 1e3, (time.perf_counter() - wall) * 1e3))
    cpus, walls = zip(*taken, strict=True)
    return statistics.median(cpus), statistics.median(walls)


async def _apply(parts: Components, operations: OperationBatch) -> None:
    topology = await parts.registry.get("default")
    await parts.applier.apply(topology, ApplyRequest(endpoint="batch", operations=operations))


def _id() -> int:
    return random.getrandbits(64) or 1


def compare(checkouts: list[Path]) -> None:
    """Measure checkouts in turns, each in a process of its own, and print the best of each."""
    runs: dict[Path, list[dict[str, list[float]]]] = {checkout: [] for checkout in checkouts}
    for _ in range(ROUNDS):
        for checkout in checkouts:
            paths = os.pathsep.join(str(checkout / part / "src") for part in ("client", "service"))
            command = [sys.executable, str(Path(__file__)), "--one"]
            run = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, check=True)
            runs[checkout].append(json.loads(run.stdout))
    for way in ("batches", "singles"):
        for number, unit in enumerate(("processor", "wall")):
            best = [min(run[way][number] for run in runs[checkout]) for checkout in checkouts]
            print(f"{way}, {unit}: " + " : ".join(f"{one:.2f} ms ({one / best[0]:.3f})" for one in best))


if __name__ == "__main__":
    if sys.argv[1:] == ["--one"]:
        print(json.dumps(asyncio.run(measure())))
    else:
        compare([*map(Path, sys.argv[1:]), HERE])
