"""Runs the demo: starts an acker, runs rounds on it, prints the proof, and removes everything."""

import asyncio
import itertools
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from examples.word_count.acker import create_topology, start_acker
from examples.word_count.plan import Plan
from examples.word_count.processes import processes_in
from examples.word_count.proof import Proof, prove
from examples.word_count.screen import Screen
from examples.word_count.supervisor import run_round
from examples.word_count.workers import Location

PROVEN, FAILED = 0, 1
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_demo(plan: Plan) -> int:
    """Run the demo, and return its exit code: 0 if all was proven, 128 and the number of a signal that ended it."""
    return asyncio.run(_run_until_signal(plan, Console(highlight=False, soft_wrap=True)))


async def _run_until_signal(plan: Plan, console: Console) -> int:
    running = asyncio.create_task(_run(plan, console))
    ended_by = _end_on_signal(running)
    try:
        return await running
    except asyncio.CancelledError:
        console.print("Stopped; every process has ended, and the temporary data are gone.")
        return 128 + ended_by[0]
    except Exception as error:  # noqa: BLE001 - every error is printed; all processes have ended
        for leaf in _leaves(error):
            console.print(f"{type(leaf).__name__}: {leaf}", style="red", markup=False)
        return FAILED


def _end_on_signal(running: "asyncio.Task[int]") -> list[int]:
    """Cancel the run at the first signal and ignore later ones, and return the signals that came."""
    came: list[int] = []

    def end(number: int) -> None:
        came.append(number)
        if len(came) == 1:
            running.cancel()

    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, end, number)
    return came


async def _run(plan: Plan, console: Console) -> int:
    """Run one round, or rounds until one proves wrong."""
    with tempfile.TemporaryDirectory(prefix="acker-demo-") as name:
        folder = Path(name)
        async with processes_in(folder) as processes:
            acker = await start_acker(processes, folder / "data")
            for number in itertools.count(1):
                location = Location(acker=acker, topology=f"word-count-{number}", folder=folder / str(number))
                proof = await _run_round(plan, location, console)
                if not proof.holds or not plan.keep_going:
                    return PROVEN if proof.holds else FAILED
    raise AssertionError("count never ends")


async def _run_round(plan: Plan, location: Location, console: Console) -> Proof:
    lines = plan.read_lines()
    location.folder.mkdir()
    create_topology(plan, location)
    console.print(f"Counting the words of {len(lines)} lines of Newton's Opticks, with the acker at {location.acker}")
    since = time.monotonic()
    with Screen(console, lines=len(lines)) as screen:
        round_ = await run_round(plan, lines, location, screen)
    console.print(f"Done in {time.monotonic() - since:.1f} s.")
    proof = prove(lines, round_)
    _show(proof, console)
    return proof


def _show(proof: Proof, console: Console) -> None:
    for claim in proof.claims:
        console.print("  proven" if claim.holds else "  WRONG ", style="green" if claim.holds else "red", end="  ")
        console.print(claim.says, markup=False)
    listed = ", ".join(f"{word} {count}" for word, count in proof.counts.most_common(10))
    console.print(f"The ten most frequent words: {listed}")
    console.print("All of it is proven." if proof.holds else "Not all of it is true.")


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for part in error.exceptions:
        yield from _leaves(part)
