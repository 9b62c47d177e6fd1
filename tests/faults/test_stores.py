"""Stores of every kind in trouble in the middle of a load: what was answered is not lost, nothing is applied twice."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest
from acker_service.redis import keys
from redis.crc import key_slot

from tests.support.caller import Caller, ack, init
from tests.support.load import Load
from tests.support.processes import freeze, thaw
from tests.support.programs import needed
from tests.support.proxy import Fate, Proxy
from tests.support.servers import acker_serve
from tests.support.stores import KINDS, Member, Running, paired, running, until
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

SOME = 400
E = 9
CLUSTERS = [kind for kind in KINDS if kind.endswith("-cluster")]
SENTINELS = [kind for kind in KINDS if kind.endswith("-sentinel")]


@asynccontextmanager
async def loaded(folder: Path, url: str, *options: str) -> AsyncIterator[Load]:
    """Serve an acker on a store and load it; at the end see what became of every root."""
    with acker_serve(folder / "acker", "--redis-url", url, *options) as acker:
        limits = httpx.Limits(max_keepalive_connections=0)
        async with httpx.AsyncClient(base_url=acker.url, limits=limits, timeout=30) as http:
            load = Load(Caller(http), within=60)
            async with anyio.create_task_group() as group:
                group.start_soon(load.run)
                await load.reaches(SOME)
                yield load
                await load.reaches(SOME)
                load.ended = True
            await eventually(load.all_told, within=60)
            outcomes = await load.outcomes()
    assert len(outcomes) >= 2 * SOME
    assert outcomes == {(root, "timed_out" if root in load.held else "acked"): 1 for root in load.answered}


@pytest.mark.parametrize("kind", CLUSTERS)
async def test_a_slot_on_its_way_to_another_node_loses_and_doubles_nothing(tmp_path: Path, kind: str) -> None:
    with running(kind, tmp_path) as store:
        async with loaded(tmp_path, store.url) as load:
            slot = key_slot(keys.shard("default", 0).encode())
            source, target = _holder(store, slot), _another(store, slot)
            target.ask("CLUSTER SETSLOT", slot, "IMPORTING", source.ask("CLUSTER MYID"))
            source.ask("CLUSTER SETSLOT", slot, "MIGRATING", target.ask("CLUSTER MYID"))
            await load.is_refused(20)
            _move(source, target, slot, count=source.ask("CLUSTER COUNTKEYSINSLOT", slot) // 2)
            await load.is_refused(20)
            _move(source, target, slot)
            for member in (target, source, *store.members):
                if "role:master" in member.info("INFO", "replication"):
                    member.ask("CLUSTER SETSLOT", slot, "NODE", target.ask("CLUSTER MYID"))


@pytest.mark.parametrize("ended_by", ["fix", "stable"])
@pytest.mark.parametrize("kind", CLUSTERS)
async def test_a_move_of_a_slot_that_stopped_half_way_is_named_and_can_be_ended(
    tmp_path: Path, kind: str, ended_by: str
) -> None:
    cli = needed("redis-cli")
    with running(kind, tmp_path) as store, acker_serve(tmp_path / "acker", "--redis-url", store.url) as acker:
        slot = key_slot(keys.shard("default", 0).encode())
        source, target = _holder(store, slot), _another(store, slot)
        async with httpx.AsyncClient(base_url=acker.url, timeout=30) as http:
            call = Caller(http)
            roots = range(4, 164, 4)  # of the shard 0
            assert await call.states(*[init(root, E) for root in roots]) == ["pending"] * len(roots)
            target.ask("CLUSTER SETSLOT", slot, "IMPORTING", source.ask("CLUSTER MYID"))
            source.ask("CLUSTER SETSLOT", slot, "MIGRATING", target.ask("CLUSTER MYID"))
            if ended_by == "fix":
                _move(source, target, slot, count=source.ask("CLUSTER COUNTKEYSINSLOT", slot) // 2)
            refused = await call.post(init(404, E))
            assert (refused.status_code, refused.json()["code"]) == (503, "store_unavailable")
            assert refused.json()["detail"].startswith("a slot of the cluster moves to another server")
            assert f"slot {slot} of the cluster moves from 127.0.0.1:{source.port}" in acker.log.read_text()
            said = acker.http.get("/metrics").text
            assert 'acker_store_faults_total{kind="moving"} 0.0' not in said
            assert 'acker_store_faults_total{kind="error"} 0.0' in said
            if ended_by == "fix":
                await anyio.run_process([cli, "--cluster", "fix", f"127.0.0.1:{source.port}"])
            else:
                for member in (source, target):
                    member.ask("CLUSTER SETSLOT", slot, "STABLE")

            async def is_ended() -> bool:
                await call.post(init(408, E))
                return f"slot {slot} of the cluster has arrived" in acker.log.read_text()

            await eventually(is_ended, within=60)
            assert await call.states(*[ack(root, E) for root in roots]) == ["acked"] * len(roots)


@pytest.mark.parametrize("kind", CLUSTERS)
async def test_a_primary_of_a_cluster_that_is_killed_loses_no_answered_init(tmp_path: Path, kind: str) -> None:
    with running(kind, tmp_path) as store:
        async with loaded(tmp_path, store.url, "--durability", "replica:1"):
            slot = key_slot(keys.shard("default", 0).encode())
            killed = _holder(store, slot)
            killed.stop()
            await anyio.to_thread.run_sync(
                lambda: until(lambda: _holder(store, slot, but=killed), "a replica is promoted")
            )
            killed.start()


async def test_while_one_primary_of_a_cluster_is_away_the_other_shards_go_on(tmp_path: Path) -> None:
    with running("valkey-cluster", tmp_path) as store:
        slots = [key_slot(keys.shard("default", shard).encode()) for shard in range(4)]
        names = key_slot(keys.TOPOLOGIES.encode())
        away = next(holder for slot in slots if (holder := _holder(store, slot)) is not _holder(store, names))
        for member in store.members:
            member.ask("CONFIG SET", "cluster-require-full-coverage", "no")
            if "role:slave" in member.info("INFO", "replication"):
                member.ask("CONFIG SET", "cluster-replica-no-failover", "yes")
        here = next(shard for shard, slot in enumerate(slots) if _holder(store, slot) is not away)
        with acker_serve(tmp_path / "acker", "--redis-url", store.url) as acker:
            async with httpx.AsyncClient(base_url=acker.url, timeout=20) as http:
                call = Caller(http)
                assert await call.states(init(4 + here, E)) == ["pending"]
                away.stop()

                async def went_on() -> bool:
                    return (await call.batch(ack(4 + here, E), key="k")).status_code == 200

                await eventually(went_on, within=60)

                async def is_ready_and_up() -> bool:
                    shown = (await http.get("/metrics")).text
                    return (await http.get("/readyz")).status_code == 200 and "acker_store_up 1.0" in shown

                await eventually(is_ready_and_up, within=60)  # either asks the store for a second at most


@pytest.mark.parametrize("kind", SENTINELS)
async def test_a_primary_with_sentinels_that_is_killed_loses_no_answered_init(tmp_path: Path, kind: str) -> None:
    with running(kind, tmp_path) as store:
        async with loaded(tmp_path, store.url, "--durability", "replica:1") as load:
            store.members[0].stop()
            await load.is_refused(1)


@pytest.mark.parametrize("kind", SENTINELS[:1])
async def test_a_primary_that_froze_and_was_replaced_is_left_alone_when_it_is_back(tmp_path: Path, kind: str) -> None:
    with running(kind, tmp_path) as store:
        async with loaded(tmp_path, store.url, "--durability", "replica:1") as load:
            frozen = store.members[0]
            freeze(frozen.process.pid)
            await load.is_refused(1)
            await load.reaches(SOME)
            thaw(frozen.process.pid)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Running, Member]]:
    """A primary and its replica."""
    with paired(tmp_path) as pair:
        yield pair


async def test_with_a_replica_frozen_the_same_request_is_unavailable_twice_and_then_known(
    tmp_path: Path, pair: tuple[Running, Member]
) -> None:
    """The second time at another acker, on whose connections nothing is waited for that was written before."""
    store, replica = pair
    options = ("--redis-url", store.url, "--durability", "replica:1")
    with acker_serve(tmp_path / "a", *options) as one, acker_serve(tmp_path / "b", *options) as two:
        async with httpx.AsyncClient(timeout=20) as http, httpx.AsyncClient(timeout=20) as other:
            http.base_url, other.base_url = one.url, two.url
            calls = Caller(http), Caller(other)
            for number, call in enumerate(calls, 1):
                await eventually(lambda: answered(call, number), within=60)  # noqa: B023 - it is awaited here
            freeze(replica.process.pid)
            for call in calls:
                answer = await call.batch(init(4, E), key="k4")
                assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
                assert answer.json()["retryable"]
            thaw(replica.process.pid)

            answer = await eventually(lambda: answered(calls[0], 4), within=60)
            assert answer is not None
            assert (answer.headers["Idempotency-Replayed"], answer.json()["results"]) == ("true", ["pending"])


async def answered(call: Caller, root: int) -> httpx.Response | None:
    """Let a root be known, as often as it takes; the replica is waited for but a second each time."""
    answer = await call.batch(init(root, E), key=f"k{root}")
    assert answer.status_code in {200, 503}, answer.text
    return answer if answer.status_code == 200 else None


@pytest.mark.parametrize("kind", ["valkey", "valkey-cluster", "valkey-sentinel"])
async def test_answers_that_are_dropped_cut_or_late_double_nothing(tmp_path: Path, kind: str) -> None:
    proxies: list[Proxy] = []
    with running(kind, tmp_path, proxies=proxies) as store:
        async with loaded(tmp_path, store.url) as load:
            for proxy in proxies:
                proxy.after(25, Fate.DROP, Fate.DELAY, Fate.CUT)
            await load.reaches(SOME)
            await load.is_refused(3)
            for proxy in proxies:
                proxy.after(1)
    assert {fate for proxy in proxies for fate in proxy.fallen} == {Fate.DROP, Fate.CUT, Fate.DELAY}


@pytest.mark.parametrize("fate", [Fate.DROP, Fate.CUT])
@pytest.mark.parametrize("kind", ["valkey", "valkey-cluster", "valkey-sentinel"])
async def test_a_call_whose_answer_is_lost_is_not_sent_again(tmp_path: Path, kind: str, fate: Fate) -> None:
    proxies: list[Proxy] = []
    with (
        running(kind, tmp_path, proxies=proxies) as store,
        acker_serve(tmp_path / "acker", "--redis-url", store.url) as acker,
    ):
        async with httpx.AsyncClient(base_url=acker.url, timeout=20) as http:
            call = Caller(http)
            assert await call.states(init(1, E, E + 1)) == ["pending"]
            before = (await call.root(1))["ack_val"]
            for proxy in proxies:
                proxy.once(fate, lambda sent: b"acker_apply" in sent)
            lost = await call.batch(ack(1, E))
            assert (lost.status_code, lost.json()["code"], lost.json()["retryable"]) == (
                503,
                "store_unavailable",
                False,
            )
            assert int((await call.root(1))["ack_val"], 16) == int(before, 16) ^ E
    assert sum(len(proxy.fallen) for proxy in proxies) == 1


def _primaries(store: Running) -> list[Member]:
    return [member for member in store.members if member.process.poll() is None]


def _holder(store: Running, slot: int, *, but: Member | None = None) -> Member:
    """Find the primary that has a slot, by what it says itself."""
    for member in _primaries(store):
        if member is but:
            continue
        me = member.ask("CLUSTER MYID")
        for first, last, (_, _, holder, *_), *_ in member.ask("CLUSTER SLOTS"):
            if first <= slot <= last and holder == me:
                return member
    raise OSError("nobody has it now")


def _another(store: Running, slot: int) -> Member:
    holder = _holder(store, slot)
    return next(m for m in store.members if m is not holder and "role:master" in m.info("INFO", "replication"))


def _move(source: Member, target: Member, slot: int, count: int = 10_000) -> None:
    """Move keys of a slot, as `valkey-cli --cluster reshard` does."""
    found = source.ask("CLUSTER GETKEYSINSLOT", slot, count)
    for start in range(0, len(found), 100):
        source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5_000, "KEYS", *found[start : start + 100])
