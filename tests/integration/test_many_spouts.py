"""Very many spout tasks: made in one step, and bounded."""

from collections.abc import Iterator

import pytest
from acker_service.components import Components

from tests.support.caller import Caller, ack, init
from tests.support.redis_side import everywhere
from tests.support.servers import AckerProcess, acker_serve

DEFAULT = "/v1/topologies/default"
MAX_SPOUTS = 3
MANY = 2_000
PER_INIT = 12


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
    words = await call.words(*(init(root, 9, spout_task=f"s{root}") for root in range(1, MANY + 1)))
    assert words == ["pending"] * MANY
    assert await calls(parts) - called_before < 100
    assert await commands(parts) - before < PER_INIT * MANY  # those that an init itself takes, and few for its name
    found = (await call.http.get(f"/v1/topologies/{call.topology}/spouts")).json()["spouts"]
    assert {spout["spout_task"]: spout["pending"] for spout in found} == {f"s{n}": 1 for n in range(1, MANY + 1)}


@pytest.mark.anyio
async def test_as_many_as_a_batch_may_have_are_made_in_one_request(parts: Components, call: Caller) -> None:
    inits = [init(root, spout_task=f"s{root}") for root in range(1, 10_001)]
    assert set(await call.words(*inits)) == {"acked"}
    assert [await call.told("s1"), await call.told("s10000")] == [[(1, "acked")], [(10_000, "acked")]]


@pytest.mark.anyio
async def test_known_and_new_ones_may_stand_together_and_again(call: Caller) -> None:
    await call.put_spout("s2", ephemeral=True)
    for first in (1, 11):
        roots = range(first, first + 10)
        assert set(await call.words(*(init(root, 9, spout_task=f"s{root % 7}") for root in roots))) == {"pending"}
    assert (await call.spout("s2"))["ephemeral"] is True
    assert set(await call.words(*(ack(root, 9) for root in range(1, 21)))) == {"acked"}
    assert sorted(root for root, _ in await call.told("s2")) == [2, 9, 16]


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
