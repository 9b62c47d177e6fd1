"""The count worker: a word in, one more in its tally; it first writes, then acks."""

import asyncio
import json
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from acker_client import AsyncAcker

from examples.word_count.reports import report
from examples.word_count.tally import Tally
from examples.word_count.tuple_server import serve
from examples.word_count.tuples import Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What this worker is started with; when it holds words of line ``pause_at`` it waits to be killed."""

    acker: str
    topology: str
    listener: int
    tally: str
    pause_at: int | None
    drop_word: str | None


class CountWorker:
    """Counts words."""

    def __init__(self, task: Task, acker: AsyncAcker, tally: Tally) -> None:
        self._task = task
        self._acker = acker
        self._tally = tally

    async def count_all(self, words: list[Word]) -> None:
        """Count some words, then ack them. If the worker dies in between, all words come again."""
        self._tally.add(word for word in words if word["word"] != self._task.drop_word)
        if any(word["line"] == self._task.pause_at for word in words):
            await self._pause_until_killed(words)
        async with self._acker.batch():
            for word in words:
                await self._acker.ack(self._acker.receive(word["headers"], component="count"))

    async def _pause_until_killed(self, words: list[Word]) -> None:
        """Report the pause and wait: the supervisor kills this worker while it holds unacked words."""
        report(paused=True, line=self._task.pause_at, holds=len(words))
        await asyncio.Event().wait()


async def main(task: Task) -> None:
    """Run the worker."""
    async with AsyncAcker(task.acker, topology=task.topology, startup_timeout=None) as acker:
        with closing(Tally(Path(task.tally))) as tally:
            await serve(task.listener, CountWorker(task, acker, tally).count_all)


if __name__ == "__main__":
    asyncio.run(main(Task(**json.loads(sys.argv[1]))))
