"""Supervises a round: reads the reports, kills the worker that pauses, and replaces it."""

import asyncio
import signal
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.word_count.plan import Plan, choose_kill_point
from examples.word_count.processes import Child, Processes, processes_in
from examples.word_count.screen import Screen
from examples.word_count.workers import Location, Workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Killing:
    """How a worker died, at which line, and how many words it had counted and not acked."""

    worker: str
    line: int
    held: int
    code: int

    @property
    def sudden(self) -> bool:
        """Whether SIGKILL ended it: the process cannot react to that."""
        return self.code == -signal.SIGKILL


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The result of a round: the spout's summary, the killed workers, and the tallies."""

    summary: dict[str, Any]
    killings: list[Killing]
    tallies: list[Path]


class Supervisor:
    """Runs one round and acts on its reports."""

    def __init__(self, workers: Workers, processes: Processes, screen: Screen) -> None:
        self._workers = workers
        self._processes = processes
        self._screen = screen
        self._awaited = set(workers.names)
        self.killings: list[Killing] = []

    async def listen(self) -> dict[str, Any]:
        """Listen until the spout has ended, and return its summary."""
        while True:
            received = await self._processes.reports.get()
            if "end" in received.fields:
                summary: dict[str, Any] = received.fields["end"]
                return summary
            if "ready" in received.fields:
                await self._admit(received.child)
            elif "paused" in received.fields:
                await self._replace(received.child, received.fields)
            else:
                self._screen.show(received.fields["progress"])

    async def _admit(self, child: Child) -> None:
        """Start the spout when the last worker that is waited for is ready; one that replaces another is not."""
        if child.name in self._awaited:
            self._awaited.remove(child.name)
            if not self._awaited:
                await self._workers.start_spout()

    async def _replace(self, child: Child, fields: dict[str, Any]) -> None:
        """Kill a worker. Its successor has the same socket and tally, but nothing that it held."""
        code = await child.kill()
        killing = Killing(worker=child.name, line=fields["line"], held=fields["holds"], code=code)
        self.killings.append(killing)
        await self._workers.start_count_worker(child.name)
        self._screen.log(
            f"{child.name} paused at line {killing.line} with {killing.held} words counted and not acked: "
            "killed with SIGKILL and replaced"
        )


async def run_round(plan: Plan, lines: dict[int, str], location: Location, screen: Screen) -> Round:
    """Run a round to its end; all its processes are gone then. Raises an ``ExceptionGroup`` with what went wrong."""
    async with processes_in(location.folder) as processes:
        with Workers(plan, location, processes) as workers:
            supervisor = Supervisor(workers, processes, screen)
            await workers.start_workers(choose_kill_point(plan, lines, workers.count_workers))
            summary = await _within(plan.within_s, supervisor.listen())
            tallies = [workers.tally(name) for name in workers.count_workers]
    return Round(summary=summary, killings=supervisor.killings, tallies=tallies)


async def _within(seconds: float, summary: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    try:
        return await asyncio.wait_for(summary, seconds)
    except TimeoutError:
        raise TimeoutError(f"the round did not end within {seconds} s") from None
