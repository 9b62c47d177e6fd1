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
from examples.word_count.tuples import Word
from examples.word_count.worker import serve


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What this worker is started with; with words of line ``stand_still_at`` in its hand it waits to be killed."""

    acker: str
    topology: str
    listener: int
    tally: str
    stand_still_at: int | None
    drop_word: str | None


class CountWorker:
    """Counts words."""

    def __init__(self, task: Task, acker: AsyncAcker, tally: Tally) -> None:
        self._task, self._acker, self._tally = task, acker, tally

    async def count_all(self, words: list[Word]) -> None:
        """Count some words and ack them. Dying in between is the worst moment: all come again, and are there."""
        self._tally.add(word for word in words if word["word"] != self._task.drop_word)
        if any(word["line"] == self._task.stand_still_at for word in words):
            await self._stand_still(words)
        async with self._acker.batch():
            for word in words:
                await self._acker.ack(self._acker.receive(word["headers"], component="count"))

    async def _stand_still(self, words: list[Word]) -> None:
        """Say so and never go on, so that whoever kills this worker is sure to lose something."""
        report(stands_still=True, line=self._task.stand_still_at, holds=len(words))
        await asyncio.Event().wait()


async def main(task: Task) -> None:
    """Run the worker."""
    async with AsyncAcker(task.acker, topology=task.topology) as acker:
        with closing(Tally(Path(task.tally))) as tally:
            await serve(task.listener, CountWorker(task, acker, tally).count_all)


if __name__ == "__main__":
    asyncio.run(main(Task(**json.loads(sys.argv[1]))))
