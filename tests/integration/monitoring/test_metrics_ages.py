"""The metrics of what is oldest, late or near a limit move with what happens."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest
from acker_service.app import make_app
from acker_service.components import Components, TopologyLimits
from acker_service.http.keys import digest_of
from acker_service.settings import Settings

from tests.support.caller import Caller, ack, fail, init
from tests.support.exposition import Exposition, read, scrape
from tests.support.servers import acker_serve
from tests.support.tasks import root_expiry
from tests.support.waiting import eventually, eventually_true

pytestmark = pytest.mark.anyio

E = 0xE1
DEFAULT = {"topology": "default"}
MOST_LINES = 362
"""Lines that an acker without traffic may show, comments included."""


async def fresh(call: Caller, parts: Components) -> Exposition:
    """Scrape, with a snapshot of the store as it is now."""
    await parts.monitor.refresh()
    return await scrape(call.http)


async def test_the_age_of_the_oldest_pending_root_grows_until_it_ends(call: Caller, parts: Components) -> None:
    assert (await fresh(call, parts)).value("acker_oldest_pending_seconds", **DEFAULT) == 0
    await call.states(init(1, E))

    async def has_grown() -> bool:
        age = (await fresh(call, parts)).value("acker_oldest_pending_seconds", **DEFAULT)
        return age is not None and 0.05 < age < 60

    await eventually(has_grown)
    await call.states(ack(1, E))
    assert (await fresh(call, parts)).value("acker_oldest_pending_seconds", **DEFAULT) == 0


async def test_the_age_of_the_oldest_unread_completion_tells_who_has_to_read_it(
    call: Caller, parts: Components
) -> None:
    async def ages() -> tuple[bool, bool]:
        exposition = await fresh(call, parts)
        names = ("acker_oldest_unread_seconds", "acker_oldest_unread_pull_seconds")
        found = [exposition.value(name, **DEFAULT) for name in names]
        return bool(found[0]), bool(found[1])

    async def are(expected: tuple[bool, bool]) -> None:
        await eventually(lambda: equals(expected))

    async def equals(expected: tuple[bool, bool]) -> bool:
        return await ages() == expected

    assert await ages() == (False, False)
    await call.put_spout("hooked", callback={"kind": "webhook", "url": "https://orders.example"})
    await call.states(init(1, spout_task="hooked"))
    await are((True, False))
    await call.states(init(2))
    await are((True, True))
    await call.release((await call.completions())["cursor"])
    await are((True, False))


async def test_the_fullest_mailbox_is_that_of_one_spout_task(call: Caller, parts: Components) -> None:
    await call.states(*(init(root) for root in range(1, 6)), *(init(root, spout_task="others") for root in range(6, 9)))
    assert (await fresh(call, parts)).value("acker_fullest_mailbox", **DEFAULT) == 5
    await call.release((await call.completions())["cursor"])
    assert (await fresh(call, parts)).value("acker_fullest_mailbox", **DEFAULT) == 3


async def test_timeouts_and_releases_move_their_delays(call: Caller, parts: Components) -> None:
    await call.states(init(1, E, message_timeout_ms=100), init(2), fail(2))

    async def timed_out() -> bool:
        await root_expiry(parts, interval=1)._run_measured("default")
        return bool((await call.show())["counts"]["timed_out"])

    await eventually(timed_out)
    before = await fresh(call, parts)
    assert before.value("acker_timeout_lateness_seconds_count", **DEFAULT) == 1
    assert before.value("acker_timeout_lateness_seconds_bucket", **DEFAULT, le="+Inf") == 1
    assert before.value("acker_release_delay_seconds_count", **DEFAULT) is None
    completions = (await call.completions())["completions"]
    await call.release((await call.completions())["cursor"])
    after = await fresh(call, parts)
    assert after.value("acker_release_delay_seconds_count", **DEFAULT) == len(completions) == 2
    assert (after.value("acker_release_delay_seconds_sum", **DEFAULT) or 0) < 60


async def test_limits_are_shown_beside_their_usage(valkey_url: str, parts: Components, stopping: asyncio.Event) -> None:
    limited = Components(
        valkey_url,
        window_ms=600_000,
        limits=TopologyLimits(
            mailbox_max=11, max_spouts=12, max_early=13, early_max_bytes=99_000, remembered_max_bytes=2_000_000
        ),
    )
    settings = Settings(max_in_flight=14, max_waiting=15, max_in_flight_bytes=8_388_608)
    transport = httpx.ASGITransport(app=make_app(limited, settings, stopping))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        rows = (await scrape(http)).rows("acker_limit", "limit")
        store_bytes = (await scrape(http)).value("acker_limit", limit="store_bytes")
    await limited.close()
    own = {"mailbox": 11, "spouts": 12, "early": 13, "early_bytes": 99_000, "in_flight": 14, "waiting": 15}
    own |= {"body_bytes": 8_388_608, "remembered_bytes": 2_000_000}
    assert {name: rows[name,] for name in own} == own
    assert store_bytes is not None


async def test_round_trips_of_plain_commands_are_one_series(call: Caller, parts: Components) -> None:
    rows = (await fresh(call, parts)).rows("acker_store_round_trip_seconds_count", "call")
    assert rows["command",] > 1
    assert all(name == "command" or name.startswith("acker_") for (name,) in rows)


def test_an_idle_acker_shows_few_lines_and_says_when_its_keys_file_is_broken(tmp_path: Path) -> None:
    secret = "a-secret-of-this-test"
    keys = {"keys": [{"name": "a", "sha256": digest_of(secret).hex(), "scope": "admin", "topologies": "*"}]}
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(keys))
    options = ("--data-dir", str(tmp_path / "data"), "--keys-file", str(path), "--max-connections", "77")
    with acker_serve(tmp_path, *options) as acker:

        def scraped() -> str:
            return acker.http.get("/metrics").text

        eventually_true(lambda: (read(scraped()).value("acker_visits_total", rounds="tick", result="done") or 0) > 2)
        text = scraped()
        assert len(text.splitlines()) <= MOST_LINES
        assert read(text).value("acker_limit", limit="connections") == 77
        assert read(text).value("acker_keys_file_valid") == 1
        path.write_text("{")
        eventually_true(lambda: read(scraped()).value("acker_keys_file_valid") == 0)
        path.write_text(json.dumps(keys))
        eventually_true(lambda: read(scraped()).value("acker_keys_file_valid") == 1)
