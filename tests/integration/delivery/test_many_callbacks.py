"""A change of one callback among many costs as much as one among few."""

import asyncio
from functools import partial

import pytest
from acker_protocol.errors import StoreUnavailable
from acker_service.components import Components
from acker_service.topologies import spouts
from acker_service.topologies.callback import pause
from acker_service.topologies.spouts import Spout, SpoutRegistry
from acker_service.topologies.topology import Topology

from tests.support.caller import Caller
from tests.support.trips import Trips, counted
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

FEW, MANY = 3, 60
WEBHOOK = {"kind": "webhook", "url": "https://orders.example"}
TOPOLOGY = "/v1/topologies/default"


class Decoded:
    """How many spout tasks were decoded since `clear`."""

    def __init__(self) -> None:
        self.count = 0

    def clear(self) -> None:
        self.count = 0


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Decoded:
    found, decode = Decoded(), spouts._decode

    def counted_decode(name: str, value: str) -> Spout:
        found.count += 1
        return decode(name, value)

    monkeypatch.setattr(spouts, "_decode", counted_decode)
    return found


async def register(call: Caller, count: int) -> list[str]:
    """Register webhooks of so many spout tasks."""
    names = [f"s{number}" for number in range(count)]
    for name in names:
        await call.put_spout(name, callback=WEBHOOK)
    return names


async def new_version(parts: Components) -> Topology:
    """Change a callback, so that nothing that is known of the topology's spout tasks is of the present version."""
    await parts.callbacks.change("default", "s0", lambda present, _: present and pause(present))
    return await parts.registry.refresh("default")


async def _has_begun(trips: Trips) -> bool:
    return bool(trips.found)


@pytest.mark.parametrize("count", [FEW, MANY])
async def test_a_change_reads_the_spout_task_that_is_changed_alone(
    call: Caller, parts: Components, decoded: Decoded, count: int
) -> None:
    await register(call, count)
    for change in ("pause", "resume", "secret/rotate"):
        decoded.clear()
        assert (await call.http.post(f"{TOPOLOGY}/spouts/s1/{change}")).is_success
        assert decoded.count == 1, change
    decoded.clear()
    await call.put_spout("s1", callback=WEBHOOK | {"url": "https://others.example"})
    assert decoded.count <= 4


@pytest.mark.parametrize("count", [FEW, MANY])
async def test_so_does_a_deletion(call: Caller, parts: Components, decoded: Decoded, count: int) -> None:
    await register(call, count)
    decoded.clear()
    assert (await call.http.delete(f"{TOPOLOGY}/spouts/s1")).is_success
    assert decoded.count <= 4


async def test_all_that_look_at_a_new_version_at_once_are_one_reading(
    call: Caller, parts: Components, decoded: Decoded
) -> None:
    names = await register(call, MANY)
    topology = await new_version(parts)
    decoded.clear()
    with counted(parts) as trips:
        found = await asyncio.gather(*(parts.spouts.get(topology, name) for name in names))
        assert [len(trips.found), decoded.count] == [1, MANY]
        assert [spout.name for spout in found] == names
        await asyncio.gather(*(parts.spouts.get(topology, name) for name in names))
        assert [len(trips.found), decoded.count] == [1, MANY], "and they know it then"


async def test_one_that_asks_while_others_are_read_reads_for_itself(call: Caller, parts: Components) -> None:
    await register(call, FEW)
    topology = await new_version(parts)
    with counted(parts) as trips:
        first = asyncio.create_task(parts.spouts.read(topology, "s1"))
        await eventually(partial(_has_begun, trips))
        second = asyncio.create_task(parts.spouts.read(topology, "s2"))
        assert [(await first).name, (await second).name] == ["s1", "s2"]
        assert len(trips.found) == 2


async def test_the_callbacks_of_a_version_are_read_once_whoever_waits_for_them(
    call: Caller, parts: Components, decoded: Decoded
) -> None:
    await register(call, MANY)
    topology = await new_version(parts)
    decoded.clear()
    one, other = await asyncio.gather(parts.spouts.with_callback(topology), parts.spouts.with_callback(topology))
    assert [len(one), one is other, decoded.count] == [MANY, True, MANY]
    await parts.spouts.with_callback(topology)
    assert decoded.count == MANY


async def test_a_reading_that_failed_is_done_again(
    call: Caller, parts: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    await register(call, FEW)
    topology = await new_version(parts)
    with monkeypatch.context() as patch:

        async def unavailable(*_: object) -> dict[str, Spout]:
            raise StoreUnavailable("away")

        patch.setattr(SpoutRegistry, "read_all", unavailable)
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await parts.spouts.with_callback(topology)
    assert len(await parts.spouts.with_callback(topology)) == FEW


async def test_who_gives_up_takes_nothing_from_the_others(call: Caller, parts: Components) -> None:
    await register(call, FEW)
    topology = await new_version(parts)
    asking = [asyncio.create_task(parts.spouts.get(topology, name)) for name in ("s1", "s2")]
    await asyncio.sleep(0)
    asking[0].cancel()
    assert (await asking[1]).name == "s2"
