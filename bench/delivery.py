"""Measures the way out: from the last ack to the webhook, and how many completions a second one worker delivers."""

import asyncio
import itertools
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import uvloop
from acker_protocol.routes import channel
from acker_protocol.wire.packed import CONTENT_TYPE
from acker_service.operations.column_batch import ColumnBatch
from acker_service.redis.column_codec import EncodedStrings

from bench import baseline, direct, load
from bench.http_batches import CONNECTIONS, DONE, PATH, make_topology
from bench.measure import Series, percentile
from bench.progress import Progress
from bench.receiving import Received, hanging, subscriber, webhook
from bench.servers import Member
from bench.serving import Served, ackers
from bench.sizes import Sizes
from bench.table import Line, Result
from bench.trees import SPOUT_TASK, Trees, batches, packed_body

GROUP = "delivery"
A_SECOND = 1_000
"""So many roots end a second where delays are measured,"""
AT_ONCE = 10
"""so many in one request."""
PAGE = 1_000
WAYS = ("webhook", "pubsub", "pull")
FEW_CALLBACKS = 9
CHANGES = 10
"""How often one of these callbacks is paused and resumed."""
GOALS = {"pull": 100_000, "pubsub": 90_000, "webhook": 60_000}
"""The completions that one process has to deliver in a second of its processor's time."""

COMPLETION_RATIOS = {"pull": 0.7, "webhook": 0.7}
"""What a completion may take of the service, as a ratio to the commit."""

Taken = dict[str, list[float]]


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Result]:
    """Measure rounds of all, each after the other."""
    taken: dict[str, Taken] = defaultdict(lambda: defaultdict(list))
    with ackers(baseline.codes(folder), folder, "--callback-allow-hosts", "127.0.0.1") as services:
        for service, _ in services.values():
            make_topology(service, {"message_timeout_ms": direct.WEEK_MS})
        for number in progress.over(range(sizes.rounds)):
            for way, (code, (service, store)) in itertools.product(WAYS, baseline.turns(services, number)):
                uvloop.run(Round(service, store, number).deliver(way, sizes.delivered, taken[code]))
        for number in range(sizes.rounds):  # last, for they leave work behind that the commit's acker has not
            uvloop.run(Round(*services[""], number).delays(sizes, taken[""]))
            uvloop.run(Round(*services[""], number).changes(sizes, taken[""]))
    yield from _lines(*baseline.series(taken), sizes)


class Round:
    """One round, with spout tasks of its own."""

    def __init__(self, service: Served, store: Member, number: int) -> None:
        self._service = service
        self._store = store
        self._number = number
        self._http = httpx.AsyncClient(base_url=f"{service.url}{PATH}/", trust_env=False, timeout=60)
        self._spent_s = 0.0

    async def deliver(self, way: str, count: int, taken: Taken) -> None:
        """Measure how many completions a second go out in one way, and what one takes of the service."""
        ways = {"webhook": self._by_webhook, "pubsub": self._by_pubsub, "pull": self._by_pull}
        async with self._http:
            taken[way].append(await ways[way](count))
        taken[f"{way} CPU"].append(self._spent_s / count * 1e6)

    async def delays(self, sizes: Sizes, taken: Taken) -> None:
        """Measure delays twice: while another receiver hangs, and while none does."""
        received, asked, other = Received(), asyncio.Event(), f"hangs-{self._number}"
        async with self._http, webhook(received) as url, hanging(asked) as nowhere:
            await self._call_back(SPOUT_TASK, url)
            await self._call_back(other, nowhere)
            await self._end(1, other)
            await self._end(1, SPOUT_TASK)
            await received.has(1)
            async with asyncio.timeout(120):
                await asked.wait()
            beside = await self._delay(received, sizes.paced)
            await self._remove(other)
            alone = await self._delay(received, sizes.paced)
            await self._remove(SPOUT_TASK)
        taken["p99 beside"].append(percentile(beside.delays, 0.99))
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            taken[name].append(percentile(alone.delays, share))
            taken[f"answer {name}"].append(percentile(alone.answers, share))

    async def _delay(self, received: Received, count: int) -> "Pace":
        """Let roots end at an even pace; see when each ack was answered and when its webhook came."""
        trees = Trees(count)
        for columns in (trees.inits(), trees.acks()):
            await self._send(batches(columns))
        acks, before = trees.last_acks(), received.count()
        pace = Pace(self._service)
        sent = await pace.send([acks.records[at : at + AT_ONCE] for at in range(0, count, AT_ONCE)])
        await received.has(before + count)
        came = received.first()
        pace.delays = [(came[root] - at) * 1e3 for root, at in sent.items()]
        return pace

    async def changes(self, sizes: Sizes, taken: Taken) -> None:
        """Measure a change of a callback twice: among few of its topology, and among many."""
        async with self._http:
            for among, count in (("few", FEW_CALLBACKS), ("many", sizes.callbacks)):
                taken[f"change among {among}"].append(await self._change(count))

    async def _change(self, count: int) -> float:
        """Pause and resume one of so many webhooks, to which nothing is due; in milliseconds a change."""
        topology = f"{self._service.url}/v1/topologies/callbacks-{self._number}-{count}"
        await self._http.put(topology, json={"dedupe_window_ms": 0})
        async with hanging(asyncio.Event()) as nowhere:
            for number in range(count):
                callback = {"kind": "webhook", "url": nowhere}
                (await self._http.put(f"{topology}/spouts/s{number}", json={"callback": callback})).raise_for_status()
            taken: list[float] = []
            for change in ("pause", "resume") * CHANGES:
                began = time.perf_counter()
                (await self._http.post(f"{topology}/spouts/s0/{change}")).raise_for_status()
                taken.append((time.perf_counter() - began) * 1e3)
        (await self._http.delete(topology, params={"force": "true", "discard": "true"})).raise_for_status()
        return percentile(taken, 0.5)

    async def _by_webhook(self, count: int) -> float:
        received, name = Received(), f"webhook-{self._number}"
        await self._end(count, name)
        async with webhook(received) as url:
            before = self._service.cpu_s()
            await self._call_back(name, url)
            await received.has(count)
            self._spent_s = self._service.cpu_s() - before
        await self._remove(name)
        return _rate(received)

    async def _by_pubsub(self, count: int) -> float:
        received, name = Received(), f"pubsub-{self._number}"
        await self._end(count, name)
        async with subscriber(received, self._store.port, channel("bench", name)):
            before = self._service.cpu_s()
            await self._put(name, {"kind": "pubsub"})
            await received.has(count)
            self._spent_s = self._service.cpu_s() - before
        await self._remove(name)
        return _rate(received)

    async def _by_pull(self, count: int) -> float:
        """Read page after page, and release each."""
        name, read = f"pull-{self._number}", 0
        await self._end(count, name)
        began, before = time.perf_counter(), self._service.cpu_s()
        while read < count:
            answer = await self._http.get(f"spouts/{name}/completions", params={"limit": PAGE})
            page = answer.raise_for_status().json()
            read += len(page["completions"])
            release = await self._http.post(f"spouts/{name}/completions/release", json={"cursor": page["cursor"]})
            release.raise_for_status()
        rate = count / (time.perf_counter() - began)
        self._spent_s = self._service.cpu_s() - before
        await self._remove(name)
        return rate

    async def _end(self, count: int, spout_task: str) -> None:
        """Let roots end at once: they have no edges."""
        columns = Trees(count).inits()
        columns.records["ack_val"] = columns.records["outstanding"] = 0
        await self._send(ColumnBatch(batch.records, EncodedStrings.of([spout_task])) for batch in batches(columns))

    async def _send(self, some: Iterable[ColumnBatch]) -> None:
        version = self._service.packed_version
        bodies = [packed_body(batch, version) for batch in some]
        requests = [load.post(f"{PATH}/batch?results=exceptions", body, CONTENT_TYPE) for body in bodies]
        await load.sent(self._service.port, requests, CONNECTIONS, DONE)

    async def _call_back(self, spout_task: str, url: str) -> None:
        await self._put(spout_task, {"kind": "webhook", "url": url})

    async def _put(self, spout_task: str, callback: dict[str, Any]) -> None:
        (await self._http.put(f"spouts/{spout_task}", json={"callback": callback})).raise_for_status()

    async def _remove(self, spout_task: str) -> None:
        (await self._http.delete(f"spouts/{spout_task}", params={"discard": "true"})).raise_for_status()


class Pace:
    """Sends last acks, so many at once, so many a second; in milliseconds ``answers`` and ``delays``."""

    def __init__(self, service: Served) -> None:
        self._service = service
        self.answers: list[float] = []
        self.delays: list[float] = []

    async def send(self, parts: Sequence[Any]) -> dict[int, float]:
        """Send one part after the other, none before its time, and return when each root's ack was sent."""
        sent: dict[int, float] = {}
        reader, writer = await asyncio.open_connection("127.0.0.1", self._service.port)
        began = time.perf_counter()
        for number, records in enumerate(parts):
            await asyncio.sleep(max(0.0, began + number * AT_ONCE / A_SECOND - time.perf_counter()))
            body = packed_body(ColumnBatch(records, EncodedStrings.of([])), self._service.packed_version)
            at = time.perf_counter()
            writer.write(load.post(f"{PATH}/batch?results=exceptions", body, CONTENT_TYPE))
            sent |= dict.fromkeys(records["root_id"].tolist(), at)
            answer = await load.answer(reader)
            self.answers.append((time.perf_counter() - at) * 1e3)
            assert answer.startswith(b"HTTP/1.1 200"), answer
            assert DONE in answer, answer
        writer.close()
        return sent


def _rate(received: Received) -> float:
    """Return how many came a second, from the first message on: a worker finds a new callback in its own time."""
    (first, body), (last, _) = received.bodies[0], received.bodies[-1]
    return (received.count() - body.count(b'"root_id"')) / (last - first)


def _lines(taken: dict[str, Series], earlier: dict[str, Series], sizes: Sizes) -> Iterator[Result]:
    pace = f"at {A_SECOND:,} roots/s"
    for name in ("p50", "p99"):
        what, beside = f"{name} from the last ack to the webhook, {pace}", f"{name} of the ack's own answer"
        yield _line(what, "ms", taken[name], beside, taken[f"answer {name}"])
    what = f"p99 to the webhook, {pace}, while another receiver hangs"
    yield _line(what, "ms", taken["p99 beside"], "while none does", taken["p99"])
    what, beside = f"a change of one of {sizes.callbacks} callbacks", f"of one of {FEW_CALLBACKS}"
    yield _line(what, "ms", taken["change among many"], beside, taken["change among few"])
    for way, other in (("webhook", "pull"), ("pubsub", "pull"), ("pull", "webhook")):
        rate, cpu, by_other = taken[way], taken[f"{way} CPU"], f"by {other}"
        yield _line(f"completions that one worker delivers by {way}", "/s", rate, by_other, taken[other])
        what = f"completions in a second of the service's processor, by {way}"
        of_core = Series.of(1e6 / each for each in cpu.values)
        yield _line(what, "/s", of_core, "a second on the wall", rate, at_least=GOALS[way])
        line = _line(f"the service, a completion by {way}", "CPU µs", cpu, by_other, taken[f"{other} CPU"])
        yield from baseline.both(line, earlier.get(f"{way} CPU"), ratio_at_most=COMPLETION_RATIOS.get(way))


def _line(what: str, unit: str, measured: Series, beside: str, base: Series, *, at_least: float | None = None) -> Line:
    return Line(group=GROUP, what=what, unit=unit, measured=measured, beside=beside, base=base, at_least=at_least)
