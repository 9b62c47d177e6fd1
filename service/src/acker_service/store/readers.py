"""Reads mailboxes for all who ask together: equal wishes once, several in a round trip, first come first served."""

import asyncio
from dataclasses import dataclass, field
from itertools import islice

from acker_service.store.cursors import Cursor
from acker_service.store.mailboxes import Mailboxes, Reading, Wanted
from acker_service.store.spouts import Spout
from acker_service.store.topology import Topology

ROUND_TRIPS = 4
"""So many are under way at once: few enough that thousands who ask together leave connections to others."""

CALLS = 64
"""A round trip carries about so many calls, one a shard and wish: each may give megabytes."""


@dataclass(slots=True)
class _Wish:
    topology: Topology
    wanted: Wanted
    answers: list[asyncio.Future[Reading]] = field(default_factory=list)


class Readers:
    """Serves all who read in this process. A wish joins an equal one only while that has not been sent yet."""

    def __init__(self, mailboxes: Mailboxes) -> None:
        self._mailboxes = mailboxes
        self._wishes: dict[tuple[str, int, str, int, str], _Wish] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def read(
        self, topology: Topology, spout: Spout, cursor: Cursor, limit: int, until: Cursor | None = None
    ) -> Reading:
        """Read the completions after a cursor, as `Mailboxes.read` does; with ``until``, only those up to that one."""
        loop = asyncio.get_running_loop()
        if not self._wishes:
            loop.call_soon(self._send)
        key = (topology.pair, spout.index, cursor.encode(), limit, until.encode() if until else "")
        wanted = Wanted(spout=spout, cursor=cursor, limit=limit, until=until)
        wish = self._wishes.setdefault(key, _Wish(topology, wanted))
        answer: asyncio.Future[Reading] = loop.create_future()
        wish.answers.append(answer)
        return await answer

    def _send(self) -> None:
        while self._wishes and len(self._tasks) < ROUND_TRIPS:
            task = asyncio.create_task(self._run(self._take()))
            self._tasks.add(task)
            task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._send()

    def _take(self) -> list[_Wish]:
        """Take the oldest wish, and with it what fits into its round trip."""
        topology = next(iter(self._wishes.values())).topology
        most = max(1, CALLS // len(topology.shards))
        same = (key for key, wish in self._wishes.items() if wish.topology.pair == topology.pair)
        return [self._wishes.pop(key) for key in list(islice(same, most))]

    async def _run(self, wishes: list[_Wish]) -> None:
        try:
            readings = await self._mailboxes.read_each(wishes[0].topology, [wish.wanted for wish in wishes])
        except Exception as fault:  # noqa: BLE001 - every fault goes to those who wait
            for wish in wishes:
                _settle(wish, fault)
            return
        for wish, reading in zip(wishes, readings, strict=True):
            _settle(wish, reading)


def _settle(wish: _Wish, result: Reading | Exception) -> None:
    for answer in wish.answers:
        if answer.done():
            continue
        if isinstance(result, Exception):
            answer.set_exception(result)
        else:
            answer.set_result(result)
