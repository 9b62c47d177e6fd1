"""The pairs of incarnation and version: which calls a shard takes, and what is written only as it was read."""

import pytest
from acker_service.components import Components
from acker_service.redis import keys
from acker_service.redis.functions.apply import ApplyLimits
from acker_service.redis.stamp import StaleStamp, Stamp
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.topology import Deletion, Topology

from tests.support.caller import Caller, ack, init
from tests.support.redis_side import at
from tests.support.redis_side import call as call_function

pytestmark = pytest.mark.anyio

SHARD = keys.shard("orders", 0)
TOPOLOGY, TASKS, LISTED = keys.topology("orders"), keys.spouts("orders", "0"), keys.TOPOLOGIES
OLD, NEW = "00000000000000a0", "00000000000000a1"
DAY_MS = 86_400_000


def pair(incarnation: str, version: int) -> str:
    return f"{incarnation}{version:010d}"


async def stamped(parts: Components, stamp: str) -> None:
    await at(parts, "SET", SHARD, stamp)


async def asked(parts: Components, named: str) -> list[bytes]:
    """Ask the shard for its counts, by a pair."""
    return list(await call_function(parts, "acker_read_counts_v2", [SHARD], named))[:2]


async def early_of(parts: Components, named: str) -> int:
    """Ask the shard for its number of early roots, by a pair."""
    counts = (await call_function(parts, "acker_read_counts_v2", [SHARD], named))[4]
    return int(counts[counts.index(b"early") + 1])


def stale(stamp: str) -> list[bytes]:
    return [b"stale", stamp.encode()]


async def written(
    parts: Components, read: str, *, config: str = "{}", above: str = "", digits: str = "cafe"
) -> list[bytes]:
    """Write the topology's configuration over the one that was read."""
    args = (read, config, digits, "orders", above)
    return list(await call_function(parts, "acker_write_topology_v1", [TOPOLOGY, LISTED], *args))


async def registered(parts: Components, read: bytes) -> bytes:
    """Create a spout task of the topology that was read, and return its value."""
    call = ("acker_register_spouts_v1", [TOPOLOGY, TASKS], read, 1, '{"ephemeral": false}', "s")
    _, _, [value] = await call_function(parts, *call)
    return bytes(value)


async def field(parts: Components, name: str) -> str:
    return str((await at(parts, "HGET", TOPOLOGY, name)).decode())


async def test_a_lower_pair_is_stale_and_told_the_shards_own(parts: Components) -> None:
    await stamped(parts, pair(NEW, 2))
    for lower in (pair(NEW, 1), pair(OLD, 3)):
        assert await asked(parts, lower) == stale(pair(NEW, 2))
    assert (await at(parts, "GET", SHARD)).decode() == pair(NEW, 2)


@pytest.mark.parametrize("higher", [pair(OLD, 2), pair(OLD, 10), pair(NEW, 1)])
async def test_a_higher_pair_is_adopted(parts: Components, higher: str) -> None:
    await stamped(parts, pair(OLD, 1))
    assert (await asked(parts, higher))[0] == b"ok"
    assert await asked(parts, pair(OLD, 1)) == stale(higher)


async def test_an_incarnation_has_keys_of_its_own(parts: Components) -> None:
    await stamped(parts, pair(OLD, 1))
    await at(parts, "SET", f"{SHARD}:{OLD}:early", "3 960")
    assert await early_of(parts, pair(OLD, 1)) == 3
    assert await early_of(parts, pair(NEW, 1)) == 0


async def test_a_shard_without_a_stamp_takes_no_pair(parts: Components) -> None:
    assert await asked(parts, pair(NEW, 1)) == stale("")
    assert not await at(parts, "EXISTS", SHARD)


async def test_a_shard_without_a_stamp_is_stamped(parts: Components) -> None:
    assert await call_function(parts, "acker_stamp_v1", [SHARD], pair(NEW, 1)) == [b"ok"]
    assert (await asked(parts, pair(NEW, 1)))[0] == b"ok"


async def test_stamping_leaves_a_higher_stamp_alone(parts: Components) -> None:
    await stamped(parts, pair(NEW, 2))
    assert await call_function(parts, "acker_stamp_v1", [SHARD], pair(NEW, 1)) == stale(pair(NEW, 2))
    assert await asked(parts, pair(NEW, 1)) == stale(pair(NEW, 2))


async def test_a_call_that_is_stale_applies_nothing(parts: Components, call: Caller) -> None:
    """The library refuses it; that the service then tries again with what it reads is another matter."""
    await call.post(init(1, 9))
    topology = await parts.registry.get("default")
    packed = b"\x02" + bytes(3) + b"\0" + (1).to_bytes(8, "big") + (9).to_bytes(8, "big") + bytes(9)
    args = (pair(topology.incarnation, 0), topology.settings, "", ApplyLimits().packed, "", "", "", "", packed)
    assert (await call_function(parts, "acker_apply_v2", [topology.shards[1]], *args))[0] == b"stale"
    assert (await call.root(1))["ack_val"] == "0000000000000009"


async def test_a_tombstone_refuses_every_version_of_its_incarnation(parts: Components) -> None:
    await call_function(parts, "acker_bury_v1", [SHARD], pair(NEW, 2))
    for version in (1, 2, 3):
        assert await asked(parts, pair(NEW, version)) == stale(pair(NEW, 2) + "x")
        assert await call_function(parts, "acker_stamp_v1", [SHARD], pair(NEW, version)) == stale(pair(NEW, 2) + "x")


async def test_a_tombstone_gives_way_to_a_later_incarnation(parts: Components) -> None:
    await call_function(parts, "acker_bury_v1", [SHARD], pair(OLD, 2))
    assert await call_function(parts, "acker_stamp_v1", [SHARD], pair(NEW, 1)) == [b"ok"]
    assert await at(parts, "PTTL", SHARD) == -1


async def test_a_tombstone_stays_for_a_day(parts: Components) -> None:
    await call_function(parts, "acker_bury_v1", [SHARD], pair(NEW, 2))
    assert DAY_MS - 60_000 < await at(parts, "PTTL", SHARD) <= DAY_MS


async def test_a_shard_that_is_above_is_not_buried(parts: Components) -> None:
    await stamped(parts, pair(NEW, 1))
    assert await call_function(parts, "acker_bury_v1", [SHARD], pair(OLD, 7)) == stale(pair(NEW, 1))
    assert (await asked(parts, pair(NEW, 1)))[0] == b"ok"


async def test_a_barrier_writes_at_the_place_of_its_key(parts: Components) -> None:
    """So that waiting for it is waiting for all that was written there before."""
    assert await call_function(parts, "acker_barrier_v1", [SHARD]) == [b"ok"]
    assert 20 * DAY_MS < await at(parts, "PTTL", SHARD + ":barrier") <= 21 * DAY_MS


async def test_a_configuration_is_written_only_over_the_one_that_was_read(parts: Components) -> None:
    _, first = await written(parts, "")
    _, second = await written(parts, first.decode(), config="changed")
    for read in ("", first.decode()):
        assert await written(parts, read, config="too late") == [b"raced"]
    assert (await field(parts, "config"), await field(parts, "pair")) == ("changed", second.decode())


async def test_a_change_raises_the_version_and_keeps_the_incarnation(parts: Components) -> None:
    _, first = await written(parts, "")
    _, second = await written(parts, first.decode(), digits="beef")
    assert (first[16:], second) == (b"0000000001", first[:16] + b"0000000002")


@pytest.mark.parametrize(
    ("floor", "incarnation"),
    [
        ("fffffffffffffff0", "fffffffffffffff1"),
        ("fffffff0ffffffff", "fffffff100000000"),
        ("0000000000000001", None),
    ],
)
async def test_an_incarnation_is_above_any_floor(parts: Components, floor: str, incarnation: str | None) -> None:
    _, made = await written(parts, "", above=pair(floor, 5) + "x")
    assert made.decode()[:16] == incarnation or incarnation is None
    assert made.decode() > pair(floor, 5)


async def test_a_configuration_that_a_failover_lost_is_written_anew_above_its_shards(parts: Components) -> None:
    _, read = await written(parts, "")
    ahead = read.decode()[:16] + "0000000009"
    assert await written(parts, read.decode(), above=ahead) == [b"ok", read[:16] + b"0000000010"]


async def test_a_topology_is_marked_only_as_it_was_read(parts: Components) -> None:
    _, first = await written(parts, "")
    _, second = await written(parts, first.decode())
    assert await call_function(parts, "acker_mark_topology_v1", [TOPOLOGY], first, "deleting") == [b"raced"]
    state, marked, mark = await call_function(parts, "acker_mark_topology_v1", [TOPOLOGY], second, "deleting")
    assert (state, marked, mark[:9]) == (b"ok", second[:16] + b"0000000003", b"deleting ")


async def test_only_the_topology_that_was_marked_is_forgotten(parts: Components) -> None:
    _, first = await written(parts, "")
    _, second = await written(parts, first.decode())
    await call_function(parts, "acker_remove_topology_v1", [TOPOLOGY, TASKS, LISTED], first, "orders")
    assert await field(parts, "pair") == second.decode()
    await call_function(parts, "acker_remove_topology_v1", [TOPOLOGY, TASKS, LISTED], second, "orders")
    assert not await at(parts, "EXISTS", TOPOLOGY)


async def test_a_spout_task_is_written_only_over_the_one_that_was_read(parts: Components) -> None:
    _, read = await written(parts, "")
    first = await registered(parts, read)
    write = ("acker_write_spout_v1", [TOPOLOGY, TASKS], read, "s")
    _, value = await call_function(parts, *write, first, "{}")
    for late in ("", first):
        assert await call_function(parts, *write, late, "late") == [b"raced"]
    assert await at(parts, "HGET", TASKS, "s") == value
    await at(parts, "HDEL", TASKS, "s")
    assert await call_function(parts, *write, value, "removed") == [b"raced"]


async def test_a_spout_task_is_marked_only_as_it_was_read(parts: Components) -> None:
    _, read = await written(parts, "")
    value = await registered(parts, read)
    marked = ([TOPOLOGY, TASKS], read, "s")
    assert await call_function(parts, "acker_mark_spout_v1", *marked, "another", "") == [b"raced"]
    foreign = ([TOPOLOGY, TASKS], pair(OLD, 1), "s", value, "")
    assert await call_function(parts, "acker_mark_spout_v1", *foreign) == stale(read.decode())
    assert await at(parts, "HGET", TASKS, "s") == value
    assert await call_function(parts, "acker_mark_spout_v1", *marked, value, "") == [
        b"ok",
        read[:16] + b"0000000002",
    ]


async def test_a_shard_that_lost_its_stamp_is_stamped_again(parts: Components, call: Caller) -> None:
    await call.post(init(1, 9))
    topology = await parts.registry.get("default")
    for shard in topology.shards:
        await at(parts, "DEL", shard)
    assert await call.state(ack(1, 9)) == "acked"
    assert {(await at(parts, "GET", shard)).decode() for shard in topology.shards} == {topology.stamp.text}


async def test_a_put_that_died_between_its_two_steps_holds_on_every_shard(parts: Components, call: Caller) -> None:
    """The configuration is written and no shard stamped: the first call that names the new pair heals the shard."""
    await call.post(init(1, 9))
    found = await parts.registry.get("default")
    died = _Dying(parts.redis, window_ms=parts.window_ms)
    marked = await died.set_deletion(found, Deletion.CHECKING)
    await died.set_deletion(marked, None)
    before = await at(parts, "GET", found.shards[1])
    await parts.registry.refresh("default")
    assert await call.state(ack(1, 9)) == "acked"
    assert before.decode() < (await at(parts, "GET", found.shards[1])).decode()


class _Dying(TopologyRegistry):
    """Writes, and dies before it stamps."""

    async def stamp_shards(self, topology: Topology) -> None:
        pass


async def test_a_configuration_that_is_lost_with_all_that_its_shards_hold_is_told_in_the_log(
    parts: Components, caplog: pytest.LogCaptureFixture
) -> None:
    await at(parts, "DEL", keys.topology("default"))
    await parts.registry.refresh("default")
    assert "topology default is created again: its configuration was lost" in caplog.text


async def test_a_topology_that_others_write_meanwhile_is_refreshed_to_what_they_wrote(
    parts: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else every call that was refused at the same time would be refused again, once for each of the others."""
    registry = parts.registry
    topology = await registry.get("default")
    stamp_shards, others = registry.stamp_shards, list[Topology]()

    async def stamped_while_another_writes(stamped: Topology) -> None:
        await stamp_shards(stamped)
        if not others:
            others.append(stamped)
            others.append(await registry.create_or_update("default", lambda present: present or stamped.config))

    monkeypatch.setattr(registry, "stamp_shards", stamped_while_another_writes)
    ahead = Stamp(pair(topology.incarnation, int(topology.stamp.text[16:]) + 1))
    refreshed = await registry.refresh_after(topology, StaleStamp(topology.shards[0], ahead))
    assert others[1].stamp.is_newer_than(others[0].stamp)
    assert refreshed.stamp == others[1].stamp
