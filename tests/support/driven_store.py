"""The real store on a real Valkey whose library reads a clock that the test drives."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from acker_protocol.operations import CompletionRecord, Operation, OperationState, Outcome
from acker_service.components import Components, TopologyLimits
from acker_service.metrics.store_collector import LatencyHistogram
from acker_service.operations.request import ApplyRequest
from acker_service.redis import library
from acker_service.redis.calls import Argument
from acker_service.redis.functions.roots import RootFilter
from acker_service.roots.pending import decode_positions
from acker_service.roots.reading import RootView
from acker_service.topologies.config import TopologyConfig
from acker_service.topologies.cursors import completion_list, decode_cursor
from acker_service.topologies.topology import Topology

from tests.support.columns import batch_of
from tests.support.documents import records
from tests.support.redis_side import ask, at, everywhere, flush

TIME = "redis.call('TIME')"
CLOCK = "test:clock"
START_MS = 2_100_000_000_000
"""The clock starts decades ahead, so that no key expires by Redis's own clock while a test runs."""

_EXPIRE = """
for _, key in ipairs(redis.call('KEYS', '*')) do
  local at = redis.call('PEXPIRETIME', key)
  if at >= 0 and at < tonumber(ARGV[1]) then redis.call('DEL', key) end
end
"""


def driven_library(text: str) -> str:
    """Return the library's text with its one reading of the time replaced by the test's clock."""
    assert text.count(TIME) == 1
    return text.replace(TIME, f"{{ 0, redis.call('GET', '{CLOCK}') * 1000 }}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What can be seen of a topology: roots, all completions, pending and unread by spout task, early roots, totals."""

    roots: list[RootView]
    mailbox: list[CompletionRecord]
    pending: dict[str, int]
    unread: dict[str, int]
    early: int
    early_bytes: int
    totals: dict[str, int]


class DrivenStore:
    """One topology of a store, driven step by step from plain functions. Its clock stands still but for `advance`."""

    def __init__(
        self,
        url: str,
        configuration: TopologyConfig,
        *,
        window_ms: int,
        max_early: int = 1_000_000,
        early_max_bytes: int = 67_108_864,
        remembered_max_bytes: int = 1 << 30,
        remembered_if_full: int = 0,
        text: str | None = None,
    ) -> None:
        self._runner = asyncio.Runner()
        self._store = Components(
            url,
            window_ms=window_ms,
            limits=TopologyLimits(
                max_early=max_early, early_max_bytes=early_max_bytes, remembered_max_bytes=remembered_max_bytes
            ),
        )
        self._store.backpressure.remembered_max_bytes_if_full = remembered_if_full
        self.now_ms = START_MS
        self._runner.run(self._begin(configuration, driven_library(text or library.source())))

    def apply(
        self, messages: Sequence[Operation], key: str | None
    ) -> tuple[list[tuple[OperationState, Outcome | None]], bool]:
        """Apply a request, and return its answers and whether every shard knew it."""
        return self._runner.run(self._apply(messages, key))

    def advance(self, ms: int) -> None:
        """Let time pass, and do what Redis does then: drop the keys whose time has come."""
        self.now_ms += ms
        self._runner.run(self._set_clock())

    def fill(self, *, is_full: bool) -> None:
        """Let the service see that the store is full, or is so no more."""
        self._store.backpressure.is_store_full = is_full

    def tick(self) -> None:
        """Tick once."""
        self._runner.run(self._tick())

    def configure(self, configuration: TopologyConfig) -> None:
        """Change the topology, as another replica would: this one learns of it from the stamps."""
        self._runner.run(self._other_writes(configuration))

    def root(self, root_id: int) -> RootView:
        """Read a root."""
        return self._runner.run(self._read(root_id))

    def seen(self, root_ids: Sequence[int]) -> Seen:
        """Read all that can be seen, at once: one way to Redis and back takes longer than what is asked there."""
        return self._runner.run(self._seen(root_ids))

    def roots(self, *, older_than_ms: int) -> list[int]:
        """List the pending roots of at least this age."""
        return self._runner.run(self._list(older_than_ms))

    def ask(self, function: str, *args: Argument) -> list[Any]:
        """Call a function on the first shard, as the store does."""
        return self._runner.run(self._ask(function, args))

    def command(self, command: str, key: str, *args: Argument) -> Any:
        """Run a plain command on a key."""
        return self._runner.run(at(self._store, command, key, *args))

    @property
    def topology(self) -> Topology:
        """The topology as it was begun."""
        return self._topology

    @property
    def settings(self) -> bytes:
        """What the library is told of the configuration."""
        return self._topology.settings

    @property
    def base(self) -> str:
        """What the keys of the first shard begin with."""
        return f"{self._topology.shards[0]}:{self._topology.incarnation}:"

    def counts(self) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        """Pending and unread by spout task, and the totals."""
        return self._runner.run(self._counts())

    def latencies(self) -> dict[str, LatencyHistogram]:
        """Complete latencies by outcome."""
        return self._runner.run(self._latencies())

    def mailbox(self) -> list[CompletionRecord]:
        """All completions of all spout tasks."""
        return self._runner.run(self._mailbox())

    def close(self) -> None:
        """Let go of the store."""
        self._runner.run(self._store.close())
        self._runner.close()

    async def _begin(self, configuration: TopologyConfig, text: str) -> None:
        await flush(self._store)
        await self._set_clock()
        await everywhere(self._store, "FUNCTION LOAD", "REPLACE", text)
        self._topology = await self._store.registry.create_or_update("driven", lambda _: configuration)

    async def _apply(
        self, messages: Sequence[Operation], key: str | None
    ) -> tuple[list[tuple[OperationState, Outcome | None]], bool]:
        request = ApplyRequest(endpoint="batch", operations=batch_of(messages), key=key)
        reply = await self._store.applier.apply(await self._current(), request)
        return [(answer.state, answer.outcome) for answer in reply.results], reply.replayed

    async def _set_clock(self) -> None:
        await everywhere(self._store, "SET", CLOCK, self.now_ms)
        await everywhere(self._store, "EVAL", _EXPIRE, 0, self.now_ms)

    async def _tick(self) -> None:
        await self._store.expiry.expire(await self._current())

    async def _other_writes(self, configuration: TopologyConfig) -> None:
        other = Components(self._store.redis.url, window_ms=self._store.window_ms)
        await other.registry.create_or_update("driven", lambda _: configuration)
        await other.close()

    async def _current(self) -> Topology:
        return await self._store.registry.get("driven")

    async def _read(self, root_id: int) -> RootView:
        return await self._store.roots.read(await self._current(), root_id)

    async def _seen(self, root_ids: Sequence[int]) -> Seen:
        await self._current()
        roots = (self._read(root_id) for root_id in root_ids)
        mailbox, counts, *read = await asyncio.gather(self._mailbox(), self._counts(), *roots)
        pending, unread, totals = counts
        stats = await self._store.stats.read(await self._current())
        return Seen(
            roots=read,
            mailbox=mailbox,
            pending=pending,
            unread=unread,
            early=stats.early,
            early_bytes=stats.early_bytes,
            totals=totals,
        )

    async def _list(self, older_than_ms: int) -> list[int]:
        topology = await self._current()
        places = decode_positions(None, topology)
        page = await self._store.pending_roots.page(
            topology, places, RootFilter(older_than_ms=older_than_ms), limit=10_000
        )
        return [root.root_id for root in page.roots]

    async def _ask(self, function: str, args: Sequence[Argument]) -> list[Any]:
        return await ask(self._store, await self._current(), 0, function, *args)

    async def _counts(self) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        topology = await self._current()
        counts, spouts = await self._store.stats.read(topology), await self._store.spouts.read_all(topology)
        pending = {name: counts.pending[spout.index] for name, spout in spouts.items()}
        unread = {name: counts.unread[spout.index] for name, spout in spouts.items()}
        return pending, unread, counts.totals

    async def _latencies(self) -> dict[str, LatencyHistogram]:
        return (await self._store.stats.read(await self._current())).latencies

    async def _mailbox(self) -> list[CompletionRecord]:
        topology, told = await self._current(), list[CompletionRecord]()
        for spout in (await self._store.spouts.read_all(topology)).values():
            reading = await self._store.mailboxes.read(
                topology, spout, decode_cursor(None, completion_list(topology, spout)), 10_000
            )
            told.extend(records(reading, spout.name))
        return told
