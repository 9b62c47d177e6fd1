"""The processes of a run: starts them, reads their reports, ends them by their pid."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.word_count.reports import read_report

GRACE_S = 10.0
"""How long a process may take to end before it is killed."""

_ROOT = Path(__file__).parents[2]


class Died(Exception):
    """A process ended that should not have."""


@dataclass(slots=True, kw_only=True)
class Child:
    """One process; ``may_end`` once it was asked to end, or has reported that it ends."""

    name: str
    process: asyncio.subprocess.Process
    log: Path
    may_end: bool = False

    def end(self) -> None:
        """SIGTERM, unless it is gone."""
        self.may_end = True
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()

    async def kill(self) -> int:
        """SIGKILL, and wait until it is gone, and return its return code."""
        self.may_end = True
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        return await self.process.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReport:
    """What a process has reported."""

    child: Child
    fields: dict[str, Any]


class Processes:
    """The children, each watched in a task of ``group``, with their logs in ``folder``; reports arrive in ``reports``.

    They are sessions of their own: a Ctrl-C reaches them through the supervisor only.
    """

    def __init__(self, group: asyncio.TaskGroup, folder: Path) -> None:
        self._group = group
        self._folder = folder
        self._children: list[Child] = []
        self.reports: asyncio.Queue[ProcessReport] = asyncio.Queue()

    async def start_module(self, name: str, task: dict[str, Any], *, listener: int | None = None) -> Child:
        """Start the program of this package that a name like count-1 begins with; its task is its one argument.

        It inherits the socket it is to listen on.
        """
        command = ["-m", f"examples.word_count.{name.partition('-')[0]}", json.dumps(task)]
        inherited = () if listener is None else (listener,)
        return await self._start(name, command, stdout=asyncio.subprocess.PIPE, inherited=inherited)

    async def start_acker(self, *options: str) -> Child:
        """Start ``acker serve``."""
        command = ["-m", "acker_service", "serve", "--shutdown-drain-s", "0", *options]
        return await self._start("acker", command, stdout=asyncio.subprocess.DEVNULL)

    async def end_all(self) -> None:
        """End what is left, and wait until it is gone."""
        for child in self._children:
            child.end()
        for child in self._children:
            try:
                await asyncio.wait_for(child.process.wait(), GRACE_S)
            except TimeoutError:
                await child.kill()

    async def _start(self, name: str, command: Sequence[str], *, stdout: int, inherited: Sequence[int] = ()) -> Child:
        log = self._folder / f"{name}.log"
        with log.open("ab") as out:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=stdout,
                stderr=out,
                cwd=_ROOT,
                env=_environment(self._folder),
                pass_fds=inherited,
                start_new_session=True,
            )
        child = Child(name=name, process=process, log=log)
        self._children.append(child)
        self._group.create_task(self._watch(child))
        return child

    async def _watch(self, child: Child) -> None:
        """Listen to a process until it ends. Raises `Died`, which ends the run, if it should not have ended."""
        if child.process.stdout is not None:
            async for line in child.process.stdout:
                fields = read_report(line)
                child.may_end = child.may_end or "end" in fields
                self.reports.put_nowait(ProcessReport(child=child, fields=fields))
        code = await child.process.wait()
        if not child.may_end:
            tail = "\n".join(child.log.read_text(errors="replace").splitlines()[-15:])
            raise Died(f"{child.name} ended with code {code}; the end of its log:\n{tail}")


@contextlib.asynccontextmanager
async def processes_in(folder: Path) -> AsyncIterator[Processes]:
    """Have processes until the block is left, however it is left. Raises an ``ExceptionGroup`` with what went wrong."""
    async with asyncio.TaskGroup() as group:
        processes = Processes(group, folder)
        try:
            yield processes
        finally:
            await processes.end_all()


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment without settings for another acker, and without a proxy on the way to this machine.

    What a process leaves in its temporary folder goes with this one, even if it is killed.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ACKER_")}
    return kept | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "TMPDIR": str(folder)}
