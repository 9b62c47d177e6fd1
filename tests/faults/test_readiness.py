"""`/readyz` says ready when a write succeeds, as the durability has it, and not before."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from acker_service.redis import keys

from bench.servers import Member
from tests.support.caller import init
from tests.support.processes import freeze, thaw
from tests.support.servers import AckerProcess, acker_serve
from tests.support.stores import Running, paired, running
from tests.support.waiting import eventually_true

INIT = "/v1/topologies/default/init"
PATIENCE_S = 3.0
_ROOTS = iter(range(1, 1_000_000))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Running, Member]]:
    with paired(tmp_path / "pair") as pair:
        yield pair


def is_ready(acker: AckerProcess) -> bool:
    """Whether it says so; it answers soon, whatever its store does."""
    return acker.http.get("/readyz", timeout=PATIENCE_S).status_code == 200


def takes_inits(acker: AckerProcess) -> bool:
    document = {name: value for name, value in init(next(_ROOTS)).items() if name != "op"}
    return acker.http.post(INIT, json=document).is_success


def test_on_a_read_only_replica_it_is_not_ready_until_the_replica_takes_over(
    pair: tuple[Running, Member], tmp_path: Path
) -> None:
    store, replica = pair
    with acker_serve(tmp_path / "first", "--redis-url", store.url) as acker:
        assert takes_inits(acker)
    with acker_serve(tmp_path / "second", "--redis-url", replica.url, until="/livez") as acker:
        assert (takes_inits(acker), is_ready(acker)) == (False, False)
        assert acker.http.get("/readyz").json()["status"] == "store unavailable"
        replica.ask("REPLICAOF", "NO", "ONE")
        eventually_true(lambda: is_ready(acker), within=10)
        assert takes_inits(acker)


def test_a_primary_that_becomes_a_replica_makes_it_not_ready(pair: tuple[Running, Member], tmp_path: Path) -> None:
    store, replica = pair
    with acker_serve(tmp_path / "acker", "--redis-url", store.url) as acker:
        assert is_ready(acker)
        replica.ask("REPLICAOF", "NO", "ONE")
        store.members[0].ask("REPLICAOF", "127.0.0.1", replica.port)
        eventually_true(lambda: not is_ready(acker), within=10)
        assert not takes_inits(acker)


def test_a_store_that_refuses_writes_makes_it_not_ready(tmp_path: Path) -> None:
    with running("valkey", tmp_path) as store, acker_serve(tmp_path / "acker", "--redis-url", store.url) as acker:
        store.members[0].ask("CONFIG", "SET", "min-replicas-to-write", 1)
        eventually_true(lambda: not is_ready(acker), within=10)
        assert not takes_inits(acker)
        store.members[0].ask("CONFIG", "SET", "min-replicas-to-write", 0)
        eventually_true(lambda: is_ready(acker), within=10)


def test_a_full_store_stays_ready_for_what_is_pending_still_ends(tmp_path: Path) -> None:
    with running("valkey", tmp_path) as store, acker_serve(tmp_path / "acker", "--redis-url", store.url) as acker:
        store.members[0].ask("CONFIG", "SET", "maxmemory", 1_000_000)
        eventually_true(lambda: not takes_inits(acker), within=10)
        assert is_ready(acker)


def test_with_a_replica_to_confirm_writes_it_is_ready_only_while_the_replica_does(
    pair: tuple[Running, Member], tmp_path: Path
) -> None:
    store, replica = pair
    options = ("--redis-url", store.url, "--durability", "replica:1")
    with acker_serve(tmp_path / "acker", *options) as acker:
        assert is_ready(acker)
        freeze(replica.process.pid)
        try:
            eventually_true(lambda: not is_ready(acker), within=10)
            assert not takes_inits(acker)
        finally:
            thaw(replica.process.pid)
        eventually_true(lambda: is_ready(acker), within=20)
        assert takes_inits(acker)


def test_in_a_cluster_it_is_ready_while_one_primary_takes_writes_and_not_when_none_does(tmp_path: Path) -> None:
    def let(member: Member, *, writes: bool) -> None:
        member.ask("CONFIG", "SET", "min-replicas-to-write", 0 if writes else 9)

    with (
        running("valkey-cluster", tmp_path) as store,
        acker_serve(tmp_path / "acker", "--redis-url", store.url) as acker,
    ):
        first, *others = store.members
        for member in others:
            let(member, writes=False)
        takes = [_holds(first, key) for key in (keys.TOPOLOGIES, *(keys.shard("default", n) for n in range(4)))]
        eventually_true(lambda: is_ready(acker) is any(takes), within=10)
        let(first, writes=False)
        eventually_true(lambda: not is_ready(acker), within=10)
        for member in others:
            let(member, writes=True)
        eventually_true(lambda: is_ready(acker), within=10)


def _holds(member: Member, key: str) -> bool:
    slot = member.ask("CLUSTER", "KEYSLOT", key)
    return any(
        low <= slot <= high and primary[1] == member.port for low, high, primary, *_ in member.ask("CLUSTER", "SLOTS")
    )


def test_being_asked_often_costs_the_store_few_questions(tmp_path: Path) -> None:
    with (
        running("valkey", tmp_path) as store,
        acker_serve(tmp_path / "acker", "--redis-url", store.url) as acker,
        httpx.Client(base_url=acker.url, timeout=20) as http,
    ):
        eventually_true(lambda: http.get("/readyz").json() == {"status": "ready", "ticking": True})
        before = questions(store.members[0])
        assert all(http.get("/readyz").json()["ticking"] for _ in range(300))
        assert all(now - then < 100 for now, then in zip(questions(store.members[0]), before, strict=True))


def questions(member: Member) -> tuple[int, int]:
    """How many keys were set on a server, and looked for; hardly anything else does that again and again."""
    stats = dict(member.ask("INFO", "commandstats"))
    return int(stats["cmdstat_set"]["calls"]), int(stats["cmdstat_exists"]["calls"])
