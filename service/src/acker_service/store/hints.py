"""Knows who waits for completions, and wakes them when there is news.

Redis publishes a hint with every entry it puts into a mailbox. A hint can be lost, so once a second the newest entries
of all mailboxes that are waited for are looked at too, in one round trip per topology.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Sequence

from acker_protocol.problems import NotFound, Problem

from acker_service.store import keys
from acker_service.store.server import Server
from acker_service.store.shards import Shards
from acker_service.store.spouts import Spout
from acker_service.store.topologies import Topologies
from acker_service.store.topology import Topology
from acker_service.store.waiting import Waiter, Waiters
from acker_service.tasks import end
from acker_service.telemetry.work import WorkMeters

SWEEP_S = 1.0
LINGER_S = 60.0
"""So long a topology is listened to after the last one who waited."""

MOST_INDEXES = 1_000
"""A look names so many mailboxes at most: Lua unpacks them."""

Mailbox = tuple[str, int]
"""An incarnation of a topology, and the index of a spout task."""

_log = logging.getLogger(__name__)


class Hints:
    """Wakes whoever waits for completions: one subscription and one sweep for all who wait in this process."""

    def __init__(self, server: Server, topologies: Topologies, shards: Shards, meters: WorkMeters) -> None:
        self._server, self._topologies, self._shards, self._meters = server, topologies, shards, meters
        self._mailboxes: Waiters[Mailbox] = Waiters()
        self._waited: dict[str, Topology] = {}
        self._last: dict[str, float] = {}
        self._heard: set[str] = set()
        self._unheard = asyncio.Event()
        self._tips: dict[Mailbox, object] = {}
        self._hinted: set[Mailbox] = set()
        self._tasks: list[asyncio.Task[None]] = []

    @contextlib.contextmanager
    def waiting(self, topology: Topology, spout: Spout) -> Iterator[Waiter]:
        """Give one who is woken at news for a spout task."""
        self._waited[topology.incarnation] = topology
        self._last[topology.incarnation] = asyncio.get_running_loop().time()
        if topology.incarnation not in self._heard:
            self._unheard.set()
        with self._mailboxes.waiting((topology.incarnation, spout.index)) as waiter:
            yield waiter

    def wake_all(self) -> None:
        """Wake everybody, news or not."""
        self._mailboxes.wake_all()

    def start(self) -> None:
        """Begin to listen and to sweep."""
        steps = ((self._listen, 0.0), (self._sweep, SWEEP_S))
        self._tasks = [asyncio.create_task(_lasting(step, rest_s)) for step, rest_s in steps]

    async def stop(self) -> None:
        """End listening and sweeping."""
        await end(*self._tasks)

    async def _listen(self) -> None:
        """Listen to all topologies that are waited for, until one comes to be that is not listened to."""
        self._unheard.clear()
        self._heard = set(self._waited)
        channels = [keys.hints(it.name, shard) for it in self._waited.values() for shard in range(it.layout.shards)]
        unheard = asyncio.create_task(self._wait_for_unheard())
        listening = asyncio.create_task(self._server.listen(channels, self._take))
        try:
            await asyncio.wait((unheard, listening), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end(unheard, listening)
        if not listening.cancelled() and (fault := listening.exception()):
            raise fault

    async def _wait_for_unheard(self) -> None:
        await self._unheard.wait()

    def _take(self, message: bytes) -> None:
        incarnation, _, index = message.decode(errors="replace").partition(" ")
        if not index.isdecimal():
            return  # somebody else's
        mailbox = (incarnation, int(index))
        self._meters.hints.inc()
        self._hinted.add(mailbox)
        self._mailboxes.wake(mailbox)

    async def _sweep(self) -> None:
        """Look once at all mailboxes that are waited for."""
        waited: dict[str, list[int]] = {}
        for incarnation, index in self._mailboxes:
            waited.setdefault(incarnation, []).append(index)
        self._keep_waited(waited)
        before, self._tips = self._tips, {}
        hinted, self._hinted = self._hinted, set()
        for incarnation, indexes in waited.items():
            with contextlib.suppress(Problem):
                self._tips |= await self._look(incarnation, indexes)
        for mailbox, tip in self._tips.items():
            if before.get(mailbox, ()) != tip:
                self._note_missed(mailbox, before, hinted | self._hinted)
                self._mailboxes.wake(mailbox)
        self._meters.sweeps.inc()

    def _keep_waited(self, waited: Iterable[str]) -> None:
        """Let go of topologies that nobody waits for: not at once, for whoever polls is away between two polls."""
        now = asyncio.get_running_loop().time()
        self._last.update(dict.fromkeys(waited, now))
        self._last = {incarnation: at for incarnation, at in self._last.items() if now - at <= LINGER_S}
        self._waited = {incarnation: it for incarnation, it in self._waited.items() if incarnation in self._last}

    def _note_missed(self, mailbox: Mailbox, before: Container[object], hinted: Container[object]) -> None:
        """Count news that no hint told of; what is looked at for the first time may be old."""
        if mailbox in before and mailbox not in hinted:
            self._meters.hints_missed.inc()

    async def _look(self, incarnation: str, indexes: Sequence[int]) -> dict[Mailbox, object]:
        """Give the newest entries of mailboxes; None where their topology is gone, which is news too."""
        found: list[object] = []
        try:
            topology = await self._topologies.get(self._waited[incarnation].name)
            while topology.incarnation == incarnation and len(found) < len(indexes):
                some = indexes[len(found) : len(found) + MOST_INDEXES]
                topology, shards = await self._shards.ask_each(topology, "acker_tips_v1", *some)
                found.extend(zip(*shards, strict=True))
        except NotFound:
            found = []
        return {(incarnation, index): tip for index, tip in itertools.zip_longest(indexes, found)}


async def _lasting(step: Callable[[], Awaitable[None]], rest_s: float) -> None:
    """Take a step again and again, whatever happens in it, with a rest between."""
    while True:
        try:
            await step()
            await asyncio.sleep(rest_s)
            continue
        except Problem as problem:
            _log.debug("news are not looked for now: %s", problem.detail)
        except Exception:  # noqa: BLE001 - whoever waits counts on it to go on
            _log.exception("looking for news failed")
        await asyncio.sleep(SWEEP_S)
