"""A Prometheus registry shows what clients have counted, and each scrape shows it anew."""

from collections.abc import Callable

import httpx
import pytest
from acker_client import Acker, AsyncAcker, DropTuple, OperationsLost
from acker_client.integrations.prometheus import StatsCollector
from acker_client.testing import MemoryAcker
from acker_protocol.ids import draw_id, format_id
from prometheus_client import CollectorRegistry

NAMES = ("in_flight", "lost_total", "dropped_tuples_total", "skipped_tuples_total", "untracked_tuples_total")
NOTHING = dict.fromkeys(NAMES, 0.0)


def registry_of(*clients: Acker | AsyncAcker, **options: list[str]) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(StatsCollector(*clients, **options))
    return registry


def scrape(registry: CollectorRegistry, client: str = "default") -> dict[str, float | None]:
    return {name: registry.get_sample_value(f"acker_client_{name}", {"client": client}) for name in NAMES}


def header() -> dict[str, str]:
    return {"Acker-Anchors": f"00 default {format_id(draw_id())}-{format_id(draw_id())}"}


def test_each_scrape_shows_what_was_counted_until_then(acker: Acker, service: MemoryAcker) -> None:
    registry = registry_of(acker)
    assert scrape(registry) == NOTHING
    with acker.receive(header(), component="count"):
        raise DropTuple("no such word")
    acker.receive({}, component="count")
    service.faults.append(httpx.Response(200, json={"roots": [{"root_id": format_id(1), "state": "finished"}]}))
    ended = acker.receive({"Acker-Anchors": f"00 default {format_id(1)}-{format_id(2)}"}, component="count")
    assert ended.skip_if_ended()
    counted = {"dropped_tuples_total": 1, "skipped_tuples_total": 1, "untracked_tuples_total": 1}
    assert scrape(registry) == NOTHING | counted


def test_operations_in_flight_and_lost_move(connect: Callable[..., Acker], service: MemoryAcker) -> None:
    acker = connect(linger=3_600)
    registry = registry_of(acker)
    acker.ack(acker.receive(header(), component="count"))
    assert scrape(registry) == NOTHING | {"in_flight": 1}
    service.faults += [httpx.ConnectError("refused")] * 1_000
    with pytest.raises(OperationsLost):
        acker.flush()
    service.faults.clear()
    assert scrape(registry) == NOTHING | {"lost_total": 1}
    acker.close()


@pytest.mark.anyio
async def test_clients_are_told_apart_by_their_names(acker: Acker, async_acker: AsyncAcker) -> None:
    registry = registry_of(acker, async_acker, names=["one", "two"])
    async_acker.receive({}, component="count")
    assert scrape(registry, "one") == NOTHING
    assert scrape(registry, "two") == NOTHING | {"untracked_tuples_total": 1}


@pytest.mark.parametrize("names", [None, ["one"], ["one", "one"], ["one", "two", "three"]])
def test_names_that_tell_no_clients_apart_are_refused(acker: Acker, names: list[str] | None) -> None:
    with pytest.raises(ValueError, match="a name of its own"):
        StatsCollector(acker, acker, names=names)
