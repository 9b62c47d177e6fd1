"""Very many spout tasks: made in one step, and bounded."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import anyio
import httpx
import pytest
from acker_service.components import Components
from acker_service.redis import functions, keys
from acker_service.redis.calls import Call
from acker_service.topologies.spouts import UNREGISTERED
from acker_service.topologies.topology import Deletion

from tests.support.caller import Caller, ack, init
from tests.support.processes import cpu_seconds, parsing_cpu_seconds
from tests.support.redis_side import at, everywhere
from tests.support.redis_side import call as call_function
from tests.support.servers import AckerProcess, acker_serve
from tests.support.waiting import eventually

DEFAULT = "/v1/topologies/default"
MAX_SPOUTS = 3
MANY = 2_000
PER_INIT = 15
"""An init takes ten; three more ask whether its root is known, for a repeat creates no spout task; and few its name."""


async def commands(parts: Components) -> int:
    """Count the commands that all servers have carried out, those within functions too."""
    return sum(int(stats["total_commands_processed"]) for stats in await everywhere(parts, "INFO", "stats"))


async def calls(parts: Components) -> int:
    """Count the functions that all servers have been called for."""
    stats = await everywhere(parts, "INFO", "commandstats")
    return sum(int(own["cmdstat_fcall"]["calls"]) for own in stats)


@pytest.mark.anyio
@pytest.mark.parametrize("ackers", [1, 4])
async def test_new_spout_tasks_of_a_batch_are_made_together(parts: Components, call: Caller, ackers: int) -> None:
    call = Caller(call.http, topology=f"with-{ackers}")
    await call.put(ackers=ackers)
    before, called_before = await commands(parts), await calls(parts)
    states = await call.states(*(init(root, 9, spout_task=f"s{root}") for root in range(1, MANY + 1)))
    assert states == ["pending"] * MANY
    assert await calls(parts) - called_before < 100
    assert await commands(parts) - before < PER_INIT * MANY  # those that an init itself takes, and few for its name
    found = (await call.http.get(f"/v1/topologies/{call.topology}/spouts")).json()["spouts"]
    assert {spout["spout_task"]: spout["pending"] for spout in found} == {f"s{n}": 1 for n in range(1, MANY + 1)}


@pytest.mark.anyio
async def test_as_many_as_a_batch_may_have_are_made_in_one_request(parts: Components, call: Caller) -> None:
    inits = [init(root, spout_task=f"s{root}") for root in range(1, 10_001)]
    assert set(await call.states(*inits)) == {"acked"}
    assert [await call.outcomes("s1"), await call.outcomes("s10000")] == [[(1, "acked")], [(10_000, "acked")]]


@pytest.mark.anyio
async def test_known_and_new_ones_may_stand_together_and_again(call: Caller) -> None:
    await call.put_spout("s2", ephemeral=True)
    for first in (1, 11):
        roots = range(first, first + 10)
        assert set(await call.states(*(init(root, 9, spout_task=f"s{root % 7}") for root in roots))) == {"pending"}
    assert (await call.spout("s2"))["ephemeral"] is True
    assert set(await call.states(*(ack(root, 9) for root in range(1, 21)))) == {"acked"}
    assert sorted(root for root, _ in await call.outcomes("s2")) == [2, 9, 16]


@pytest.mark.anyio
@pytest.mark.parametrize("ackers", [1, 32])
@pytest.mark.parametrize("key", [None, "k"])
async def test_the_process_answers_while_as_many_are_made(many: AckerProcess, ackers: int, key: str | None) -> None:
    async with httpx.AsyncClient(base_url=many.url, timeout=30) as http:
        call = Caller(http, topology=f"wide-{ackers}-{key}")
        await call.put(ackers=ackers)
        inits = [init(root, 9, spout_task=f"s{root}") for root in range(1, 10_001)]
        longest, done = 0.0, anyio.Event()

        async def look() -> None:
            nonlocal longest
            while not done.is_set():
                worked = cpu_seconds(many.process.pid)
                assert (await http.get("/livez")).is_success
                longest = max(longest, cpu_seconds(many.process.pid) - worked)
                await anyio.sleep(0.01)

        async with anyio.create_task_group() as group:
            group.start_soon(look)
            assert set(await call.states(*inits, key=key)) == {"pending"}
            done.set()
        assert longest < parsing_cpu_seconds()


@pytest.mark.anyio
async def test_requests_that_name_the_same_new_ones_at_once_make_each_once(parts: Components, call: Caller) -> None:
    names = [f"s{number}" for number in range(200)]

    async def emit(start: int) -> None:
        roots = range(start, start + len(names))
        inits = (init(root, 9, spout_task=name) for root, name in zip(roots, names, strict=True))
        assert set(await call.states(*inits)) == {"pending"}

    async with anyio.create_task_group() as group:
        for start in range(1, 2_001, 200):
            group.start_soon(emit, start)
    found = await parts.spouts.read_all(await parts.registry.get("default"))
    assert sorted(spout.index for spout in found.values()) == list(range(200))
    shown = (await call.http.get(f"{DEFAULT}/spouts")).json()["spouts"]
    assert {spout["pending"] for spout in shown} == {10}


@pytest.mark.anyio
async def test_names_that_a_full_store_knows_are_found_and_new_ones_refused(parts: Components, call: Caller) -> None:
    await call.states(init(1, 9, spout_task="known"))
    topology = await parts.registry.get("default")
    parts.spouts._caches.clear()
    await everywhere(parts, "CONFIG", "SET", "maxmemory", 1_000_000)
    try:
        indexes = await parts.spouts.ensure(topology, {"known", "new"})
    finally:
        await everywhere(parts, "CONFIG", "SET", "maxmemory", 0)
    assert indexes == {"known": 0, "new": UNREGISTERED}


@pytest.mark.anyio
async def test_a_batch_waits_until_a_spout_task_of_it_is_deleted(
    parts: Components, call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await call.put_spout("leaving")
    topology = await parts.registry.refresh("default")
    before = (await parts.spouts.read_all(topology))["leaving"]
    marked = replace(before, deletion=Deletion.DELETING, deletion_started_ms=1)
    assert await parts.spouts.mark(topology, before, marked)
    topology = await parts.registry.refresh("default")
    indexes: dict[str, int] = {}
    read_some_spouts, reads = functions.topologies.read_some_spouts, list[Sequence[str]]()

    def counted(found: str, incarnation: str, names: Sequence[str]) -> Call[list[str | None]]:
        reads.append(names)
        return read_some_spouts(found, incarnation, names)

    async def ensure() -> None:
        indexes.update(await parts.spouts.ensure(topology, {"leaving", "new"}))

    async def has_read_thrice() -> bool:
        return len(reads) >= 3

    monkeypatch.setattr(functions.topologies, "read_some_spouts", counted)
    async with anyio.create_task_group() as group:
        group.start_soon(ensure)
        await eventually(has_read_thrice)
        assert not indexes
        assert await parts.spouts.mark(topology, marked, None)
    assert indexes == {"leaving": 2, "new": 1}


@pytest.mark.anyio
async def test_the_function_makes_all_or_none_and_gives_what_was_there_as_it_was(parts: Components) -> None:
    topology = await parts.registry.get("default")
    target = (keys.topology("default"), keys.spouts("default", topology.incarnation))

    async def register(*names: str, limit: int = 3, stamp: str = topology.stamp.text) -> list[object]:
        return list(await call_function(parts, "acker_register_spouts_v1", target, stamp, limit, "{}", *names))

    [_, created, first] = await register("a", "b")
    assert (created, [value.split(b" ")[0::2] for value in first]) == (2, [[b"0", b"{}"], [b"1", b"{}"]])
    assert await register("b", "a") == [b"ok", 0, first[::-1]]
    assert await register("c", "a", "d") == [b"full", 2, 2]
    assert await at(parts, "HLEN", target[1]) == 2
    [_, created, second] = await register("a", "c")
    assert (created, second[0], second[1].split(b" ")[0]) == (1, first[0], b"2")
    assert await register("c", limit=1) == [b"ok", 0, [second[1]]]
    assert await register("e", stamp="0" * 26, limit=9) == [b"stale", topology.stamp.text.encode()]
    assert await at(parts, "HGET", target[0], "next") == b"3"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory, valkey_url: str) -> Iterator[AckerProcess]:
    """A process of its own."""
    with acker_serve(tmp_path_factory.mktemp("many"), "--redis-url", valkey_url) as acker:
        yield acker


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory, valkey_url: str) -> Iterator[AckerProcess]:
    """Few spout tasks a topology."""
    options = ("--redis-url", valkey_url, "--max-spouts", str(MAX_SPOUTS))
    with acker_serve(tmp_path_factory.mktemp("few"), *options) as acker:
        yield acker


def topology(acker: AckerProcess, name: str) -> str:
    """Make a topology that has as many spout tasks as it may."""
    path = f"/v1/topologies/{name}"
    assert acker.http.put(path).is_success
    for number in range(MAX_SPOUTS):
        assert acker.http.put(f"{path}/spouts/s{number}").is_success
    return path


def emitted(root: int, spout_task: str) -> dict[str, object]:
    return init(root, 9, spout_task=spout_task)


@pytest.mark.parametrize("form", ["init", "batch", "put"])
def test_one_too_many_is_refused_and_nothing_is_applied(few: AckerProcess, form: str) -> None:
    path = topology(few, f"full-for-{form}")
    match form:
        case "init":
            single = {name: value for name, value in emitted(1, "more").items() if name != "op"}
            answer = few.http.post(f"{path}/init", json=single)
        case "batch":
            answer = few.http.post(f"{path}/batch", json={"ops": [emitted(1, "s0"), emitted(2, "more")]})
        case _:
            answer = few.http.put(f"{path}/spouts/more")
    assert (answer.status_code, answer.json()["code"], answer.json()["retryable"]) == (422, "too_many_spouts", False)
    assert few.http.get(path).json()["pending"] == 0
    assert len(few.http.get(f"{path}/spouts").json()["spouts"]) == MAX_SPOUTS


def test_those_that_are_there_go_on_and_one_that_goes_makes_place(few: AckerProcess) -> None:
    path = topology(few, "goes-on")
    assert few.http.post(f"{path}/batch", json={"ops": [emitted(1, "s0")]}).json()["results"] == ["pending"]
    assert few.http.put(f"{path}/spouts/s1", json={"ephemeral": True}).status_code == 200
    assert few.http.delete(f"{path}/spouts/s2").status_code == 204
    assert few.http.put(f"{path}/spouts/more").status_code == 201
