"""Emits and acks trees through every replica, from its own host, and remembers what was answered."""

import asyncio
import itertools
import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import httpx
from acker_protocol import routes
from acker_protocol.ids import draw_id
from acker_protocol.operations import REFUSED

from tests.cluster.network import Host
from tests.cluster.valkeys import patiently
from tests.support.caller import Document, ack, init

HELD_TIMEOUT_MS = 8_000
"""What one root in five gets, whose last edge nobody acks."""

TIMEOUT_MS = 25_000
TREES = 10
PAUSE_S = 0.06
REQUEST_S = 5.0
GIVE_UP_S = 20.0
"""A request is sent again, with its key, for so long."""


@dataclass(slots=True, kw_only=True)
class Root:
    """What a client knows of a root; times by its clock, which is Redis's too."""

    held: bool
    sent_ms: int
    is_answered: bool = False
    acked_ms: int | None = None
    """When the last ack was sent first."""
    acks_answered: bool = False
    """Whether all acks were, before it could time out."""

    @property
    def timeout_ms(self) -> int:
        return HELD_TIMEOUT_MS if self.held else TIMEOUT_MS


@dataclass(slots=True, kw_only=True, eq=False)
class Client:
    """Loads one replica, from its host, until told to end: as many at once as there are shards, each with roots of one.

    (A request with roots of several shards needs all of them; one that was cut off would hide what the others do.)
    """

    host: Host
    url: str
    topology: str
    shards: int
    roots: dict[int, Root] = field(default_factory=dict)
    refused: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    fault: Exception | None = None
    """Why it ended too soon."""
    _keys: "itertools.count[int]" = field(default_factory=itertools.count)

    @property
    def spout_task(self) -> str:
        return self.host.name

    def answered(self) -> int:
        return sum(root.is_answered for root in list(self.roots.values()))

    def run(self) -> None:
        """Load until told to end; what was begun is brought to its end. Keeps the ``fault`` that ends it before."""
        try:
            with self.host.namespace.inside():
                asyncio.run(self._load())
        except Exception as fault:  # noqa: BLE001 - whoever waits for the load raises it
            self.fault = fault

    async def _load(self) -> None:
        async with httpx.AsyncClient(base_url=self.url, timeout=REQUEST_S) as http:
            await asyncio.gather(*(self._emit_and_ack(http, shard) for shard in range(self.shards)))

    async def _emit_and_ack(self, http: httpx.AsyncClient, shard: int) -> None:
        while not self.ended.is_set():
            edges = {self._drawn(shard): (draw_id(), draw_id(), draw_id()) for _ in range(TREES)}
            roots = {id_: Root(held=place % 5 == 0, sent_ms=_now_ms()) for place, id_ in enumerate(edges)}
            self.roots |= roots
            ops = [self._init(id_, roots[id_].timeout_ms, edges[id_]) for id_ in edges]
            words = await self._send(http, ops)
            for root, word in zip(roots.values(), words, strict=False):
                root.is_answered = word not in REFUSED
            await self._ack(http, roots, edges)
            await asyncio.sleep(PAUSE_S)

    async def _ack(self, http: httpx.AsyncClient, roots: dict[int, Root], edges: dict[int, tuple[int, ...]]) -> None:
        """Ack what is to be acked, in a wild order: of each tree all but one, then that one."""
        acks = [_acks(id_, edges[id_], held=root.held) for id_, root in roots.items()]
        first = await self._send(http, [op for tree in acks for op in tree[:-1]])
        now = _now_ms()
        for root in roots.values():
            root.acked_ms = None if root.held else now
        second = await self._send(http, [tree[-1] for tree in acks])
        now = _now_ms()
        for root in roots.values():
            root.acks_answered = bool(first and second) and now < root.sent_ms + root.timeout_ms

    async def _send(self, http: httpx.AsyncClient, ops: list[Document]) -> list[str]:
        """Send a batch until it is answered, and return the words for its operations, none if it was given up."""
        headers = {"Idempotency-Key": f"{self.host.name}-{next(self._keys)}"}
        end = time.monotonic() + GIVE_UP_S
        while time.monotonic() < end:
            try:
                answer = await http.post(routes.operation(self.topology, "batch"), json={"ops": ops}, headers=headers)
            except httpx.TransportError:
                self.refused += 1
            else:
                if answer.status_code == httpx.codes.OK:
                    return list(answer.json()["results"])
                assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE, answer.text
                self.refused += 1
            await asyncio.sleep(PAUSE_S)
        return []

    def _init(self, root: int, timeout_ms: int, edges: tuple[int, ...]) -> Document:
        return init(root, *edges[:2], spout_task=self.spout_task, message_timeout_ms=timeout_ms)

    def _drawn(self, shard: int) -> int:
        drawn = draw_id()
        return drawn - drawn % self.shards + shard if drawn > self.shards else self._drawn(shard)


@dataclass(slots=True, kw_only=True)
class Load:
    """All clients, in threads of their own: each lives on its host."""

    clients: list[Client]
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        self._threads = [threading.Thread(target=client.run, daemon=True) for client in self.clients]
        for thread in self._threads:
            thread.start()

    def reaches(self, more: int) -> None:
        """Wait until so many more inits were answered."""
        goal = self.answered() + more
        self._patiently(lambda: self.answered() >= goal, f"{goal} inits are answered")

    def is_answered(self, more: int) -> None:
        """Wait until so many more inits were answered, or requests refused."""
        goal = self.answered() + self._refused() + more
        self._patiently(lambda: self.answered() + self._refused() >= goal, f"{more} more answers came")

    def end(self) -> None:
        """End it, and wait until all that was begun is answered or given up. Raises what ended a client before."""
        for client in self.clients:
            client.ended.set()
        for thread in self._threads:
            thread.join()
        self._raise()

    def answered(self) -> int:
        return sum(client.answered() for client in self.clients)

    def _patiently(self, look: Callable[[], bool], what: str) -> None:
        """Wait until something is so, and every client lives."""

        def looked() -> bool:
            self._raise()
            return look()

        patiently(looked, what)

    def _raise(self) -> None:
        for client in self.clients:
            if client.fault is not None:
                raise RuntimeError(f"the client on {client.host.name} ended") from client.fault

    def _refused(self) -> int:
        return sum(client.refused for client in self.clients)

    def roots(self) -> Iterable[tuple[int, Root]]:
        return (item for client in self.clients for item in client.roots.items())


def _acks(root: int, edges: tuple[int, ...], *, held: bool) -> list[Document]:
    """Return the acks of a tree, of two first edges one of which grows a third, in any order; if held, all but one."""
    acks = [ack(root, edges[0]), ack(root, edges[1], edges[2]), ack(root, edges[2])][held:]
    random.shuffle(acks)
    return acks


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
