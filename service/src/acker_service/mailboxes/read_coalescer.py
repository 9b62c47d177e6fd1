"""Reads mailboxes for all who ask together: equal wishes once, several in a round trip, first come first served."""

import asyncio
from dataclasses import dataclass, field
from itertools import islice

from acker_service.mailboxes.cursor import Cursor
from acker_service.mailboxes.reading import MailboxReader, ReadRequest, ReadResult
from acker_service.topologies.spouts import Spout
from acker_service.topologies.stamp import Topology

MAX_ROUND_TRIPS = 4
"""So many are under way at once: few enough that thousands who ask together leave connections to others."""

CALLS_PER_ROUND_TRIP = 64
"""A round trip carries about so many calls, one a shard and wish: each may give megabytes."""


@dataclass(slots=True)
class _PendingRead:
    topology: Topology
    request: ReadRequest
    results: list[asyncio.Future[ReadResult]] = field(default_factory=list)


class ReadCoalescer:
    """Serves all who read in this process. A wish joins an equal one only while that has not been sent yet."""

    def __init__(self, mailboxes: MailboxReader) -> None:
        self._mailboxes = mailboxes
        self._pending: dict[tuple[str, int, str, int, str], _PendingRead] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def read(
        self, topology: Topology, spout: Spout, cursor: Cursor, limit: int, until: Cursor | None = None
    ) -> ReadResult:
        """Read the completions after a cursor, as `Mailboxes.read` does; with ``until``, only those up to that one."""
        loop = asyncio.get_running_loop()
        if not self._pending:
            loop.call_soon(self._send)
        key = (topology.stamp, spout.index, cursor.encode(), limit, until.encode() if until else "")
        wanted = ReadRequest(spout=spout, cursor=cursor, limit=limit, until=until)
        wish = self._pending.setdefault(key, _PendingRead(topology, wanted))
        answer: asyncio.Future[ReadResult] = loop.create_future()
        wish.results.append(answer)
        return await answer

    def _send(self) -> None:
        while self._pending and len(self._tasks) < MAX_ROUND_TRIPS:
            task = asyncio.create_task(self._run(self._take()))
            self._tasks.add(task)
            task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._send()

    def _take(self) -> list[_PendingRead]:
        """Take the oldest wish, and with it what fits into its round trip."""
        topology = next(iter(self._pending.values())).topology
        most = max(1, CALLS_PER_ROUND_TRIP // len(topology.shards))
        same = (key for key, wish in self._pending.items() if wish.topology.stamp == topology.stamp)
        return [self._pending.pop(key) for key in list(islice(same, most))]

    async def _run(self, wishes: list[_PendingRead]) -> None:
        try:
            readings = await self._mailboxes.read_each(wishes[0].topology, [wish.request for wish in wishes])
        except Exception as fault:  # noqa: BLE001 - every fault goes to those who wait
            for wish in wishes:
                _settle(wish, fault)
            return
        for wish, reading in zip(wishes, readings, strict=True):
            _settle(wish, reading)


def _settle(wish: _PendingRead, result: ReadResult | Exception) -> None:
    for answer in wish.results:
        if answer.done():
            continue
        if isinstance(result, Exception):
            answer.set_exception(result)
        else:
            answer.set_result(result)
