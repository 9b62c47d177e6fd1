"""Dead letters are chosen by their error and time: listed, replayed, discarded."""

import itertools
from typing import Any

import pytest
from acker_protocol import routes
from acker_service.components import Components
from acker_service.mailboxes.dead_letters import STEP, DeadLetters
from acker_service.redis.functions.mailboxes import DeadLetterFilter
from acker_service.topologies.cursors import dead_letter_list, decode_cursor

from tests.integration.mailboxes.test_pages import Mailbox, packed
from tests.integration.monitoring.test_audit import acts
from tests.support.caller import Caller

pytestmark = pytest.mark.anyio

TOPOLOGY, SPOUT = "two", "orders"
PATH = routes.dead_letters(TOPOLOGY, SPOUT)
OF_500, OF_503 = {1, 2, 3, 4, 7}, {5, 6, 8}
FITTING: list[tuple[dict[str, Any], set[int]]] = [
    ({}, OF_500 | OF_503),
    ({"error": "503"}, OF_503),
    ({"error": "ANSWERED"}, set()),
    ({"error": "%d+"}, set()),
    ({"from_ms": 2_000}, {3, 4, 5, 6, 7, 8}),
    ({"to_ms": 2_000}, {1, 2, 3, 4}),
    ({"from_ms": 2_000, "to_ms": 2_000}, {3, 4}),
    ({"from_ms": 2_001, "to_ms": 2_999}, set()),
    ({"error": "answered 500", "from_ms": 2_000}, {3, 4, 7}),
]
BAD: dict[str, dict[str, Any]] = {
    "an empty error": {"error": ""},
    "an error that is too long": {"error": "e" * 1_025},
    "a time before 1970": {"from_ms": -1},
    "a time that is no number": {"to_ms": "now"},
    "a time beyond what JSON numbers hold": {"to_ms": 2**53},
    "an end before the beginning": {"from_ms": 2, "to_ms": 1},
    "a field that is not known": {"errors": "503"},
}


@pytest.fixture
async def mailbox(call: Caller, parts: Components) -> Mailbox:
    two = Caller(call.http, TOPOLOGY)
    await two.put(ackers=2)
    await two.put_spout(SPOUT)
    topology = await parts.registry.get(TOPOLOGY)
    return Mailbox(parts, topology, await parts.spouts.get(topology, SPOUT))


@pytest.fixture
async def letters(mailbox: Mailbox) -> Mailbox:
    """Two shards with dead letters of two errors and three times."""
    await mailbox.fill(0, [[packed(1), packed(2)]], name="d", at_ms=1_000)
    await mailbox.fill(1, [[packed(3)], [packed(4)]], name="d", at_ms=2_000)
    await mailbox.fill(0, [[packed(5), packed(6)]], name="d", error="answered 503", at_ms=3_000)
    await mailbox.fill(0, [[packed(7)]], name="d", at_ms=4_000)
    await mailbox.fill(1, [[packed(8)]], name="d", error="answered 503", at_ms=4_000)
    return mailbox


async def listed(call: Caller, **query: Any) -> set[int]:
    answer = await call.http.get(PATH, params=query)
    return {int(letter["root_id"], 16) for letter in answer.json()["dead_letters"]}


async def unread(mailbox: Mailbox) -> tuple[int, int]:
    counts = await mailbox.parts.stats.read(mailbox.topology)
    return counts.unread[mailbox.spout.index], counts.dead[mailbox.spout.index]


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize(("filters", "roots"), FITTING, ids=[str(filters) for filters, _ in FITTING])
async def test_those_that_match_are_listed(call: Caller, filters: dict[str, Any], roots: set[int]) -> None:
    assert await listed(call, **filters) == roots


@pytest.mark.usefixtures("letters")
async def test_a_filtered_list_is_read_page_by_page(call: Caller) -> None:
    roots: list[int] = []
    query: dict[str, Any] = {"error": "503", "limit": 1}
    for _ in range(len(OF_503)):
        page = (await call.http.get(PATH, params=query)).json()
        roots += [int(letter["root_id"], 16) for letter in page["dead_letters"]]
        query["after"] = page["cursor"]
    assert sorted(roots) == sorted(OF_503)
    assert await listed(call, **query) == set()


@pytest.mark.parametrize("act", ["replay", "discard"])
@pytest.mark.parametrize(("filters", "roots"), FITTING, ids=[str(filters) for filters, _ in FITTING])
async def test_those_that_match_are_ended_and_counted_and_all_others_stay(
    call: Caller, letters: Mailbox, act: str, filters: dict[str, Any], roots: set[int]
) -> None:
    field = {"replay": "replayed", "discard": "discarded"}[act]
    answers = [(await call.http.post(f"{PATH}/{act}", json=filters)).json() for _ in range(2)]
    assert answers == [{field: len(roots)}, {field: 0}]
    assert await listed(call) == (OF_500 | OF_503) - roots
    left = len(OF_500 | OF_503) - len(roots)
    assert await unread(letters) == (len(roots) if act == "replay" else 0, left)


async def test_what_is_replayed_is_in_the_mailbox(call: Caller, letters: Mailbox) -> None:
    await call.http.post(f"{PATH}/replay", json={"error": "503"})
    page = (await call.http.get(routes.completions(TOPOLOGY, SPOUT))).json()
    assert {int(completion["root_id"], 16) for completion in page["completions"]} == OF_503


@pytest.mark.parametrize("act", ["replay", "discard"])
@pytest.mark.parametrize("filters", BAD.values(), ids=BAD.keys())
async def test_a_filter_that_is_not_valid_changes_nothing(
    call: Caller, letters: Mailbox, act: str, filters: dict[str, Any]
) -> None:
    refused = await call.http.post(f"{PATH}/{act}", json=filters)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
    assert next(iter(filters)) in refused.json()["detail"]
    assert await unread(letters) == (0, len(OF_500 | OF_503))


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("filters", BAD.values(), ids=BAD.keys())
async def test_a_list_by_a_filter_that_is_not_valid_is_refused(call: Caller, filters: dict[str, Any]) -> None:
    refused = await call.http.get(PATH, params=filters)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
    assert next(iter(filters)) in refused.json()["detail"]


@pytest.mark.usefixtures("letters")
async def test_the_audit_notes_how_many_matched(call: Caller) -> None:
    await call.http.post(f"{PATH}/discard", json={"error": "503"})
    [act] = await acts(call)
    assert (act["act"], act["count"]) == ("dead_letters_discarded", len(OF_503))


async def test_entries_that_do_not_match_are_passed_over_in_bounded_steps(
    call: Caller, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call passes over four megabytes; the next goes on behind them."""
    large = packed(1, bytes(60_000))
    await mailbox.fill(0, [[large]] * 150, name="d")
    await mailbox.fill(0, [[packed(2)]], name="d", error="answered 503")
    calls: list[Any] = []
    execute_each = mailbox.parts.redis.execute_each

    async def noted(some: Any) -> Any:
        calls.extend(some)
        return await execute_each(some)

    monkeypatch.setattr(mailbox.parts.redis, "execute_each", noted)
    assert await listed(call, error="503") == {2}
    assert len(calls) == 1 + 3, calls
    assert (await call.http.post(f"{PATH}/discard", json={"error": "503"})).json() == {"discarded": 1}
    assert await unread(mailbox) == (0, 150)


@pytest.mark.parametrize("act", ["replay", "discard"])
async def test_dead_letters_behind_many_that_stay_are_ended(call: Caller, mailbox: Mailbox, act: str) -> None:
    await mailbox.fill(0, [[packed(1)]] * (2 * STEP + 1), name="d")
    await mailbox.fill(0, [[packed(2)]], name="d", error="answered 503")
    answer = await call.http.post(f"{PATH}/{act}", json={"error": "503"})
    assert [*answer.json().values()] == [1]
    assert (await unread(mailbox))[1] == 2 * STEP + 1


async def test_a_page_that_takes_longer_than_its_time_is_short_and_the_next_goes_on_behind_what_it_passed(
    mailbox: Mailbox, parts: Components
) -> None:
    for shard, root in ((0, 1), (1, 2)):
        await mailbox.fill(shard, [[packed(0xF, bytes(60_000))]] * 150, name="d", at_ms=1_000)
        await mailbox.fill(shard, [[packed(root)]], name="d", error="answered 503", at_ms=2_000)
    hours = itertools.count(step=3_600)
    reader = DeadLetters(parts.shards, parts.metrics.operations, clock=lambda: float(next(hours)))
    cursor = decode_cursor(None, dead_letter_list(mailbox.topology, mailbox.spout))
    found, pages, more = list[int](), 0, True
    while more:
        page = await reader.read(mailbox.topology, mailbox.spout, cursor, 10, DeadLetterFilter(error="503"))
        found += [letter.completion.root_id for letter in page.letters]
        pages, cursor, more = pages + 1, page.cursor, page.more
        assert pages < 100, "the list has to end"
    assert sorted(found) == [1, 2]
    assert pages > 1
