"""A cursor is good for the one list that gave it: another's is refused, and forgets nothing."""

import base64
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import httpx
import pytest
from acker_protocol import routes
from acker_protocol.errors import MEDIA_TYPE
from acker_service.components import Components
from acker_service.topologies.cursors import completion_list

from tests.support.caller import Caller, init

pytestmark = pytest.mark.anyio

MINE, OTHER = "mine", "other"
E = 9
T = "/v1/topologies/default"
DEAD_LETTERS = f"{T}/spouts/{MINE}/dead-letters"
LATER = 9
"""The number of a format that this release does not know."""

Giver = Callable[[Caller], Awaitable[str]]


@pytest.fixture
async def both(call: Caller) -> Caller:
    """Two spout tasks, each with completions in every shard; the other's are the later ones."""
    for spout_task, roots in ((MINE, range(1, 9)), (OTHER, range(9, 17))):
        await call.states(*(init(root, spout_task=spout_task) for root in roots))
    return call


async def of_another_spout_task(call: Caller) -> str:
    return str((await call.completions(OTHER))["cursor"])


async def of_part_of_another_mailbox(call: Caller) -> str:
    return str((await call.completions(OTHER, limit=1))["cursor"])


async def of_another_and_empty_mailbox(call: Caller) -> str:
    await call.put_spout("empty")
    return str((await call.completions("empty"))["cursor"])


async def of_dead_letters(call: Caller) -> str:
    return str((await call.http.get(DEAD_LETTERS)).json()["cursor"])


async def of_dead_letters_of_another(call: Caller) -> str:
    return str((await call.http.get(DEAD_LETTERS.replace(MINE, OTHER))).json()["cursor"])


async def of_itself(call: Caller) -> str:
    return str((await call.completions(MINE))["cursor"])


async def of_pending_roots(call: Caller) -> str:
    await call.states(*(init(root, E, spout_task=MINE) for root in range(100, 110)))
    return str((await call.roots(limit=1))["cursor"])


OF_OTHERS: dict[str, Giver] = {
    "another spout task's": of_another_spout_task,
    "one inside another's mailbox": of_part_of_another_mailbox,
    "one of an empty mailbox": of_another_and_empty_mailbox,
    "one of the dead letters": of_dead_letters,
    "one of the pending roots": of_pending_roots,
}


def is_refused(answer: httpx.Response) -> bool:
    problem: dict[str, Any] = answer.json()
    refused = (answer.status_code, answer.headers["content-type"], problem["code"], problem["retryable"])
    return refused == (422, MEDIA_TYPE, "invalid", False) and "cursor" in problem["detail"]


@pytest.mark.parametrize("give", OF_OTHERS.values(), ids=OF_OTHERS.keys())
async def test_a_release_up_to_the_cursor_of_another_list_is_refused_and_forgets_nothing(
    both: Caller, give: Giver
) -> None:
    cursor = await give(both)
    answer = await both.http.post(routes.release("default", MINE), json={"cursor": cursor})
    assert (is_refused(answer), (await both.spout(MINE))["unread"]) == (True, 8), answer.text
    assert len(await both.outcomes(MINE)) == 8


@pytest.mark.parametrize("parameter", ["after", "until"])
@pytest.mark.parametrize("give", OF_OTHERS.values(), ids=OF_OTHERS.keys())
async def test_reading_from_or_up_to_the_cursor_of_another_list_is_refused(
    both: Caller, give: Giver, parameter: str
) -> None:
    cursor = await give(both)
    answer = await both.http.get(routes.completions("default", MINE), params={parameter: cursor})
    assert is_refused(answer), answer.text


@pytest.mark.parametrize("header", ["Last-Event-ID", None], ids=["by its header", "by after"])
async def test_a_stream_from_the_cursor_of_another_list_is_refused(both: Caller, header: str | None) -> None:
    cursor = await of_another_spout_task(both)
    headers = {"Accept": "text/event-stream"} | ({header: cursor} if header else {})
    params = {} if header else {"after": cursor}
    with anyio.fail_after(5):  # a stream that begins does not end
        answer = await both.http.get(routes.completions("default", MINE), headers=headers, params=params)
    assert is_refused(answer), answer.text


OF_OTHER_LETTERS: dict[str, Giver] = {
    "one of its completions": of_itself,
    "another spout task's": of_another_spout_task,
    "one of another's dead letters": of_dead_letters_of_another,
    "one of the pending roots": of_pending_roots,
}


@pytest.mark.parametrize("give", OF_OTHER_LETTERS.values(), ids=OF_OTHER_LETTERS.keys())
async def test_dead_letters_are_not_read_from_the_cursor_of_another_list(both: Caller, give: Giver) -> None:
    cursor = await give(both)
    answer = await both.http.get(DEAD_LETTERS, params={"after": cursor})
    assert is_refused(answer), answer.text


OF_OTHER_ROOTS: dict[str, Giver] = {"one of completions": of_itself, "one of dead letters": of_dead_letters}


@pytest.mark.parametrize("give", OF_OTHER_ROOTS.values(), ids=OF_OTHER_ROOTS.keys())
async def test_pending_roots_are_not_listed_from_the_cursor_of_another_list(both: Caller, give: Giver) -> None:
    cursor = await give(both)
    answer = await both.http.get(routes.roots("default"), params={"cursor": cursor})
    assert is_refused(answer), answer.text


async def test_a_cursor_of_the_list_itself_is_taken_everywhere(both: Caller) -> None:
    page = await both.completions(MINE, limit=3)
    assert len(await both.outcomes(MINE, after=page["cursor"])) == 5
    assert len(await both.outcomes(MINE, until=page["cursor"])) == 3
    assert await both.release(page["cursor"], MINE) == 3
    letters = (await both.http.get(DEAD_LETTERS)).json()["cursor"]
    assert (await both.http.get(DEAD_LETTERS, params={"after": letters})).status_code == 200


async def test_the_cursor_of_a_spout_task_that_was_deleted_and_made_again_is_the_beginning(both: Caller) -> None:
    cursor = await of_itself(both)
    answer = await both.http.delete(f"{T}/spouts/{MINE}", params={"discard": True})
    assert answer.status_code == 204
    await both.states(*(init(root, spout_task=MINE) for root in range(200, 205)))
    assert await both.release(cursor, MINE) == 0
    assert len(await both.outcomes(MINE, after=cursor)) == 5


async def test_the_cursor_of_a_topology_that_was_made_again_is_the_beginning(call: Caller) -> None:
    passing = Caller(call.http, "passing")
    cursors = []
    for _ in range(2):
        await passing.http.delete(routes.topology("passing"), params={"force": True, "discard": True})
        await passing.put()
        await passing.states(*(init(root, spout_task=MINE) for root in range(1, 5)))
        cursors.append((await passing.completions(MINE))["cursor"])
    assert len(await passing.outcomes(MINE, after=cursors[0])) == 4
    assert await passing.release(cursors[0], MINE) == 0


async def test_a_cursor_of_a_later_release_is_the_beginning(both: Caller, parts: Components) -> None:
    """Nobody here knows of which list it is, so nothing may be forgotten by it."""
    topology = await parts.registry.get("default")
    cursor = struct.pack(">B8s", LATER, bytes.fromhex(topology.incarnation))
    for done in (await both.completions(OTHER))["completions"]:
        cursor += struct.pack(">BQQI", int(done["root_id"], 16) % len(topology.shards), done["at_ms"], 0, 99)
    text = base64.urlsafe_b64encode(cursor).decode().rstrip("=")
    assert await both.release(text, MINE) == 0
    assert len(await both.outcomes(MINE, after=text)) == 8


async def test_a_long_poll_behind_the_cursor_of_another_list_is_refused_at_once(both: Caller) -> None:
    cursor = await of_another_spout_task(both)
    with anyio.fail_after(10):
        answer = await both.http.get(
            routes.completions("default", MINE), params={"after": cursor, "wait_ms": 60_000, "limit": 1}
        )
    assert is_refused(answer), answer.text


@pytest.mark.parametrize("after", ["", "AwEj", "no cursor"])
async def test_a_refusal_says_whether_the_text_is_no_cursor_or_that_of_another_list(both: Caller, after: str) -> None:
    path = routes.completions("default", MINE)
    unknown = await both.http.get(path, params={"after": after})
    others = await both.http.get(path, params={"after": await of_another_spout_task(both)})
    assert unknown.json()["detail"] == "cursor is not one that was given here"
    assert others.json()["detail"] == (
        "cursor was given by another list than the completions of spout task mine; "
        "send the cursor of a page of that list"
    )


async def test_a_true_cursor_of_a_later_release_forgets_nothing_and_the_next_page_s_cursor_forgets_all(
    both: Caller, parts: Components
) -> None:
    """As when a reader meets a replica of the next release and then one of this release."""
    page = await both.completions(MINE)
    topology = await parts.registry.get("default")
    of = completion_list(topology, await parts.spouts.get(topology, MINE))
    rows = of.decode(page["cursor"])
    assert rows
    head = struct.pack(">B8s", LATER, bytes.fromhex(topology.incarnation))
    packed = head + b"".join(of.row.pack(*row) for row in rows)
    later = base64.urlsafe_b64encode(packed).decode().rstrip("=")
    assert await both.release(later, MINE) == 0
    assert await both.outcomes(MINE, until=later) == []
    again = await both.completions(MINE, after=later)
    assert again == page
    assert await both.release(again["cursor"], MINE) == 8
