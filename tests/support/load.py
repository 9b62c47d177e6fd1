"""Loads an acker with trees, and goes on whatever happens to it: every request is sent again until it is answered."""

import itertools
import random
from collections import Counter
from dataclasses import dataclass, field

import anyio
import httpx
from acker_protocol.ids import draw_id

from tests.support.caller import Caller, Document, ack, init
from tests.support.waiting import eventually

TREES = 20
HELD_TIMEOUT_MS = 1_000
LONG_MS = 300_000


@dataclass
class Load:
    """What was sent. Of each held root one edge stays open; all others are acked wholly."""

    call: Caller
    within: float = 90.0
    answered: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)
    refused: int = 0
    ended: bool = False
    _keys: "itertools.count[int]" = field(default_factory=itertools.count)

    async def run(self, workers: int = 4) -> None:
        """Emit and ack trees until told to end; all that was begun is brought to its end."""
        async with anyio.create_task_group() as group:
            for _ in range(workers):
                group.start_soon(self._work)

    async def reaches(self, count: int) -> None:
        """Wait until so many more inits have been answered."""
        goal = len(self.answered) + count

        async def look() -> bool:
            return len(self.answered) >= goal

        await eventually(look, within=self.within)

    async def is_refused(self, count: int) -> None:
        """Wait until so many more requests were refused."""
        goal = self.refused + count

        async def look() -> bool:
            return self.refused >= goal

        await eventually(look, within=self.within)

    async def outcomes(self) -> Counter[tuple[int, str]]:
        """Read all completions, and return how often each root was told which outcome."""
        told: Counter[tuple[int, str]] = Counter()
        cursor: dict[str, str] = {}
        while True:
            read = await self.call.completions(limit=10_000, **cursor)
            if not read["completions"]:
                return told
            told.update((int(done["root_id"], 16), done["outcome"]) for done in read["completions"])
            cursor = {"after": read["cursor"]}

    async def all_told(self) -> bool:
        """Whether every root whose init was answered has been told."""
        return self.answered <= {root for root, _ in await self.outcomes()}

    async def _work(self) -> None:
        while not self.ended:
            trees = {draw_id(): (draw_id(), draw_id()) for _ in range(TREES)}
            held = set(list(trees)[::5])
            self.held |= held
            await self._deliver([_emit(root, edges, root in held) for root, edges in trees.items()])
            self.answered |= trees.keys()
            acks = [ack(root, edge) for root, edges in trees.items() for edge in edges[root in held :]]
            random.shuffle(acks)
            await self._deliver(acks[::2])
            await self._deliver(acks[1::2])

    async def _deliver(self, ops: list[Document]) -> None:
        key = f"load-{next(self._keys)}"

        async def is_answered() -> bool:
            try:
                answer = await self.call.batch(*ops, key=key)
            except httpx.TransportError:
                return False
            self.refused += answer.status_code == 503
            assert answer.status_code in {200, 503}, answer.text
            return answer.status_code == 200

        await eventually(is_answered, within=self.within)


def _emit(root: int, edges: tuple[int, int], held: bool) -> Document:  # noqa: FBT001 - a fact of the tree
    return init(root, *edges, message_timeout_ms=HELD_TIMEOUT_MS if held else LONG_MS)
