"""The processes of one round: starts the count workers, the split workers and the spout."""

import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from examples.word_count import count, split, spout
from examples.word_count.plan import KillPoint, Plan
from examples.word_count.processes import Processes


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where a round takes location: the acker's address, a topology of its own, a folder for the tallies."""

    acker: str
    topology: str
    folder: Path


class Workers:
    """The workers of a round.

    Their listening sockets are opened here and inherited, as by inetd: a worker that has been killed gets its address
    back, and clients that connect meanwhile wait.
    """

    def __init__(self, plan: Plan, location: Location, processes: Processes) -> None:
        self._plan = plan
        self._location = location
        self._processes = processes
        self.count_workers = [f"count-{number}" for number in range(1, plan.count_workers + 1)]
        self.split_workers = [f"split-{number}" for number in range(1, plan.split_workers + 1)]
        self._listeners = {name: socket.create_server(("127.0.0.1", 0), backlog=128) for name in self.names}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for listener in self._listeners.values():
            listener.close()

    def tally(self, count_worker: str) -> Path:
        """Return the file in which a count worker counts."""
        return self._location.folder / f"{count_worker}.db"

    @property
    def names(self) -> list[str]:
        """All but the spout."""
        return self.count_workers + self.split_workers

    async def start_workers(self, kill_point: KillPoint) -> None:
        """Start the workers, one with its kill point; each reports when it is ready."""
        for name in self.count_workers:
            await self.start_count_worker(name, pause_at=kill_point.line if name == kill_point.count_worker else None)
        for name in self.split_workers:
            await self._start_split_worker(name)

    async def start_count_worker(self, name: str, *, pause_at: int | None = None) -> None:
        """Start a count worker, also in the place of one that was killed."""
        task = count.Task(
            acker=self._location.acker,
            topology=self._location.topology,
            listener=self._listeners[name].fileno(),
            tally=str(self.tally(name)),
            pause_at=pause_at,
            drop_word=self._plan.drop_word,
        )
        await self._processes.start_module(name, asdict(task), listener=task.listener)

    async def _start_split_worker(self, name: str) -> None:
        task = split.Task(
            acker=self._location.acker,
            topology=self._location.topology,
            listener=self._listeners[name].fileno(),
            count_workers=self._urls(self.count_workers),
            hard_word=self._plan.hard_word,
        )
        await self._processes.start_module(name, asdict(task), listener=task.listener)

    async def start_spout(self) -> None:
        """Start the spout, once the workers are ready: the time they take to start is no part of any timeout."""
        task = spout.Task(
            acker=self._location.acker,
            topology=self._location.topology,
            split_workers=self._urls(self.split_workers),
            plan=self._plan,
        )
        await self._processes.start_module("spout", asdict(task))

    def _urls(self, names: list[str]) -> list[str]:
        return [f"http://127.0.0.1:{self._listeners[name].getsockname()[1]}" for name in names]
