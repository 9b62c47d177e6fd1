"""The split worker: a sentence in, its words out, each anchored and sent to the count worker it belongs to."""

import asyncio
import contextlib
import json
import sys
from collections import defaultdict
from dataclasses import dataclass

import httpx
from acker_client import AsyncAcker

from examples.word_count.text import words
from examples.word_count.tuple_server import serve
from examples.word_count.tuples import Sentence, Word, group_by_word

Outbox = defaultdict[str, list[Word]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What this worker is started with."""

    acker: str
    topology: str
    listener: int
    count_workers: list[str]
    hard_word: str


class HardWord(Exception):
    """This worker cannot take that word the first time."""


class SplitWorker:
    """Splits sentences."""

    def __init__(self, task: Task, acker: AsyncAcker, http: httpx.AsyncClient) -> None:
        self._task = task
        self._acker = acker
        self._http = http

    async def split_all(self, sentences: list[Sentence]) -> None:
        """Split some sentences; their words are on the way before the acks are."""
        outbox: Outbox = defaultdict(list)
        async with self._acker.batch():
            for sentence in sentences:
                with contextlib.suppress(HardWord):
                    await self._split(sentence, outbox)
            await asyncio.gather(*(self._send(url, part) for url, part in outbox.items()))

    async def _split(self, sentence: Sentence, outbox: Outbox) -> None:
        """Anchor the words; leaving the block acks the sentence, or fails it if a word was too hard."""
        async with self._acker.receive(sentence["headers"], component="split") as tup:
            for position, word in enumerate(words(sentence["text"])):
                if word == self._task.hard_word and sentence["attempt"] == 1:
                    raise HardWord(f"{word!r} is too hard the first time")
                headers = tup.headers(str(position))
                outbox[group_by_word(word, self._task.count_workers)].append(
                    Word(headers=headers, line=sentence["line"], position=position, word=word)
                )

    async def _send(self, url: str, part: list[Word]) -> None:
        """Send words and ignore lost connections: the edge of a lost word stays open, and its root times out."""
        with contextlib.suppress(httpx.TransportError):
            (await self._http.post(f"{url}/tuples", json=part)).raise_for_status()


async def main(task: Task) -> None:
    """Run the worker."""
    async with (
        AsyncAcker(task.acker, topology=task.topology, startup_timeout=None) as acker,
        httpx.AsyncClient() as http,
    ):
        await serve(task.listener, SplitWorker(task, acker, http).split_all)


if __name__ == "__main__":
    asyncio.run(main(Task(**json.loads(sys.argv[1]))))
