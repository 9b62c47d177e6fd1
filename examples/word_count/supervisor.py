"""The supervisor of a round: listens to the crew, kills the worker that stands still, and replaces it."""

import asyncio
import signal
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.word_count.crew import Crew, Place
from examples.word_count.plan import Plan, choose_doom
from examples.word_count.processes import Child, Processes, processes_in
from examples.word_count.screen import Screen


@dataclass(frozen=True, slots=True, kw_only=True)
class Killing:
    """How a worker died, at which line, and how many words it had counted and not acked."""

    worker: str
    line: int
    held: int
    code: int

    @property
    def sudden(self) -> bool:
        """Whether SIGKILL ended it, of which a process learns nothing."""
        return self.code == -signal.SIGKILL


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What a round leaves behind: the spout's story, who was killed, and the tallies."""

    story: dict[str, Any]
    killings: list[Killing]
    tallies: list[Path]


class Supervisor:
    """Runs one round and listens to what is reported."""

    def __init__(self, crew: Crew, processes: Processes, screen: Screen) -> None:
        self._crew, self._processes, self._screen = crew, processes, screen
        self._awaited = set(crew.workers)
        self.killings: list[Killing] = []

    async def listen(self) -> dict[str, Any]:
        """Listen until the spout has ended; gives its story."""
        while True:
            heard = await self._processes.heard.get()
            if "end" in heard.told:
                story: dict[str, Any] = heard.told["end"]
                return story
            if "ready" in heard.told:
                await self._admit(heard.child)
            elif "stands_still" in heard.told:
                await self._replace(heard.child, heard.told)
            else:
                self._screen.show(heard.told["progress"])

    async def _admit(self, child: Child) -> None:
        """Start the spout when the last worker that is waited for is ready; one that replaces another is not."""
        if child.name in self._awaited:
            self._awaited.remove(child.name)
            if not self._awaited:
                await self._crew.start_spout()

    async def _replace(self, child: Child, told: dict[str, Any]) -> None:
        """Kill a worker. Its successor has the same socket and tally, but nothing that it held."""
        code = await child.kill()
        killing = Killing(worker=child.name, line=told["line"], held=told["holds"], code=code)
        self.killings.append(killing)
        await self._crew.start_count_worker(child.name)
        self._screen.tell(
            f"{child.name} stood still at line {killing.line} with {killing.held} words counted and not acked: "
            "killed with SIGKILL and replaced"
        )


async def run_round(plan: Plan, lines: dict[int, str], place: Place, screen: Screen) -> Round:
    """Run a round to its end; all its processes are gone then. Raises an ``ExceptionGroup`` with what went wrong."""
    async with processes_in(place.folder) as processes:
        with Crew(plan, place, processes) as crew:
            supervisor = Supervisor(crew, processes, screen)
            await crew.start_workers(choose_doom(plan, lines, crew.count_workers))
            story = await _within(plan.within_s, supervisor.listen())
            tallies = [crew.tally(name) for name in crew.count_workers]
    return Round(story=story, killings=supervisor.killings, tallies=tallies)


async def _within(seconds: float, story: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    try:
        return await asyncio.wait_for(story, seconds)
    except TimeoutError:
        raise TimeoutError(f"the round did not end within {seconds} s") from None
