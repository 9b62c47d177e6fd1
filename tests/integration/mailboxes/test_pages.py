"""Pages over many shards give every completion once, in the order of its shard, wherever an entry is cut."""

import random
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest
from acker_service.components import Components
from acker_service.mailboxes import paging
from acker_service.mailboxes.reading import ReadRequest
from acker_service.redis import functions
from acker_service.redis.functions.mailboxes import Entries, ReadEntry
from acker_service.topologies.cursors import Cursor, completion_list, dead_letter_list
from acker_service.topologies.spouts import Spout
from acker_service.topologies.topology import Topology

from tests.support.caller import Caller
from tests.support.documents import roots as read_roots
from tests.support.redis_side import at

pytestmark = pytest.mark.anyio

SHARDS = 5
TEXT_FLAGS = (4, 8, 16)
TIMED_OUT = 2
PROGRESS_BYTES = 10

Page = tuple[list[int], Cursor]
Read = Callable[["Mailbox", Cursor, int], Awaitable[Page]]


def packed(root_id: int, *texts: bytes | None) -> bytes:
    """One completion as it lies in an entry, with up to a message id, a reason and a component.

    Every third one timed out: its component is behind what says where its root hung.
    """
    if root_id % 3 == TIMED_OUT and len(texts) == len(TEXT_FLAGS) and texts[-1] is not None:
        texts = (*texts[:-1], bytes(PROGRESS_BYTES) + texts[-1])
    flags = sum(flag for flag, text in zip(TEXT_FLAGS, texts, strict=False) if text is not None)
    head = root_id.to_bytes(8, "big") + bytes(10) + bytes([flags + root_id % 3])
    return head + b"".join(struct.pack(">H", len(text)) + text for text in texts if text is not None)


@dataclass(frozen=True)
class Mailbox:
    """A spout task of a topology of several shards, and its streams."""

    parts: Components
    topology: Topology
    spout: Spout

    async def fill(
        self,
        shard: int,
        entries: list[list[bytes]],
        *,
        name: str = "m",
        error: str = "answered 500",
        at_ms: int = 1_790_000_000_000,
    ) -> None:
        """Append entries of completions to the mailbox of a shard, or to its dead letters."""
        base = f"{self.topology.shards[shard]}:{self.topology.incarnation}:"
        dead = ("a", 3, "e", error, "t", at_ms) if name == "d" else ()
        for completions in entries:
            n = len(completions)
            stream = f"{base}{name}{self.spout.index}"
            await at(self.parts, "XADD", stream, "*", "n", n, "c", b"".join(completions), *dead)
            counted = "unread" if name == "m" else "dead"
            await at(self.parts, "HINCRBY", f"{base}{counted}", str(self.spout.index), n)

    async def read_all(self, read: Read, start: Cursor, limits: Callable[[], int]) -> tuple[list[int], list[Cursor]]:
        """Read page by page to the end, and return the roots, and the cursor behind each page."""
        roots: list[int] = []
        cursors = [start]
        while True:
            page, cursor = await read(self, cursors[-1], limits())
            if not page:
                return roots, cursors
            roots += page
            cursors.append(cursor)
            assert len(cursors) < 1_000, "reading on has to end"


@pytest.fixture
async def mailbox(call: Caller, parts: Components) -> Mailbox:
    wide = Caller(call.http, "wide")
    await wide.put(ackers=SHARDS)
    await wide.put_spout()
    topology = await parts.registry.get("wide")
    return Mailbox(parts, topology, await parts.spouts.get(topology, "orders"))


async def read_completions(mailbox: Mailbox, cursor: Cursor, limit: int) -> Page:
    page = await mailbox.parts.mailboxes.read(mailbox.topology, mailbox.spout, cursor, limit)
    return read_roots(page), page.cursor


async def read_dead_letters(mailbox: Mailbox, cursor: Cursor, limit: int) -> Page:
    page = await mailbox.parts.dead_letters.read(mailbox.topology, mailbox.spout, cursor, limit)
    assert {(letter.attempts, letter.error) for letter in page.letters} <= {(3, "answered 500")}
    return [letter.completion.root_id for letter in page.letters], page.cursor


def random_entries(choose: random.Random, shard: int) -> list[list[bytes]]:
    """Entries of completions with roots that count up within a shard, with and without texts."""
    entries, root = [], shard * 1_000_000
    for _ in range(choose.choice([0, 1, 3, 40])):
        completions = []
        for _ in range(choose.choice([1, 1, 2, 30])):
            root += 1
            texts = [choose.choice([None, bytes(choose.choice([0, 1, 300]))]) for _ in TEXT_FLAGS]
            completions.append(packed(root, *texts))
        entries.append(completions)
    return entries


def is_in_order(roots: list[int]) -> bool:
    by_shard: dict[int, list[int]] = {}
    for root in roots:
        by_shard.setdefault(root // 1_000_000, []).append(root)
    return all(of_one == sorted(of_one) for of_one in by_shard.values())


def ids(entries: list[list[list[bytes]]]) -> set[int]:
    return {int.from_bytes(done[:8], "big") for shard in entries for entry in shard for done in entry}


@pytest.mark.parametrize("seed", range(12))
async def test_every_completion_comes_once_whatever_the_pages(
    mailbox: Mailbox, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose = random.Random(seed)
    entries = [random_entries(choose, shard) for shard in range(SHARDS)]
    for shard, some in enumerate(entries):
        await mailbox.fill(shard, some)
    of = completion_list(mailbox.topology, mailbox.spout)
    monkeypatch.setattr(paging, "PAGE_BYTES", choose.choice([1, 700, 20_000, 4_194_304]))
    roots, cursors = await mailbox.read_all(read_completions, Cursor(of=of), lambda: choose.choice([1, 7, 40, 1_000]))
    assert (sorted(roots), is_in_order(roots)) == (sorted(ids(entries)), True)

    first, last = sorted(choose.sample(range(len(cursors)), 2)) if len(cursors) > 1 else (0, 0)
    again, cursor = [], cursors[first]
    while page := await between(mailbox, cursor, cursors[last], choose.choice([1, 7, 40])):
        again += page[0]
        cursor = page[1]
    sizes = await released(mailbox, cursors)
    assert len(again) == sum(sizes[first + 1 : last + 1])
    assert sorted(again) == sorted(roots[sum(sizes[: first + 1]) : sum(sizes[: last + 1])])
    assert await read_completions(mailbox, Cursor(of=of), 10) == ([], Cursor(of=of))


async def between(mailbox: Mailbox, after: Cursor, until: Cursor, limit: int) -> Page | None:
    """Read a page between two cursors; None at the end."""
    request = paged(mailbox, after, until, limit)
    [result] = await mailbox.parts.mailboxes.read_each(mailbox.topology, [request])
    return (read_roots(result), result.cursor) if result.count else None


def paged(mailbox: Mailbox, after: Cursor, until: Cursor, limit: int) -> ReadRequest:
    return ReadRequest(spout=mailbox.spout, cursor=after, limit=limit, until=until)


async def released(mailbox: Mailbox, cursors: list[Cursor]) -> list[int]:
    """Release up to each cursor in turn, and return how many each forgot."""
    return [await mailbox.parts.mailboxes.release(mailbox.topology, mailbox.spout, cursor) for cursor in cursors]


@pytest.mark.parametrize("seed", range(6))
async def test_every_dead_letter_comes_once_whatever_the_pages(
    mailbox: Mailbox, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose = random.Random(seed)
    entries = [random_entries(choose, shard) for shard in range(SHARDS)]
    for shard, some in enumerate(entries):
        await mailbox.fill(shard, some, name="d")
    of = dead_letter_list(mailbox.topology, mailbox.spout)
    monkeypatch.setattr(paging, "PAGE_BYTES", choose.choice([1, 700, 4_194_304]))
    roots, _ = await mailbox.read_all(read_dead_letters, Cursor(of=of), lambda: choose.choice([1, 7, 40]))
    assert (sorted(roots), is_in_order(roots)) == (sorted(ids(entries)), True)


async def shares(mailbox: Mailbox, entry: str, offset: int, wanted: int, room: int) -> Entries[ReadEntry]:
    """Read the first shard as a page does."""
    call = functions.mailboxes.read(
        spout_index=mailbox.spout.index, entry=entry, offset=offset, max_completions=wanted, max_bytes=room
    )
    _, reply = await mailbox.parts.shards.call(mailbox.topology, 0, call)
    return reply


THREE = [packed(1, b"one"), packed(2, None, b"why", b"bolt"), packed(3)]


async def test_an_entry_is_cut_at_the_completions_that_are_wanted(mailbox: Mailbox) -> None:
    await mailbox.fill(0, [THREE])
    cut = [await shares(mailbox, "", 0, wanted, 10_000) for wanted in (1, 2, 3)]
    assert [(reply.more, reply.entries[0].completions.data) for reply in cut] == [
        (True, THREE[0]),
        (True, THREE[0] + THREE[1]),
        (False, b"".join(THREE)),
    ]


async def test_an_entry_is_cut_at_the_completion_that_reaches_the_bytes(mailbox: Mailbox) -> None:
    await mailbox.fill(0, [THREE, THREE])
    sizes = [len(done) for done in THREE]
    cut = [await shares(mailbox, "", 0, 100, room) for room in (1, sizes[0], sizes[0] + 1, sum(sizes), sum(sizes) + 1)]
    assert [(reply.more, [entry.completions.data for entry in reply.entries]) for reply in cut] == [
        (True, [THREE[0]]),
        (True, [THREE[0]]),
        (True, [THREE[0] + THREE[1]]),
        (True, [b"".join(THREE)]),
        (True, [b"".join(THREE), THREE[0]]),
    ]


async def test_an_entry_is_read_on_behind_what_was_read_of_it(mailbox: Mailbox) -> None:
    await mailbox.fill(0, [THREE])
    [entry] = (await shares(mailbox, "", 0, 1, 10_000)).entries
    name = "-".join(map(str, entry.entry_id))
    assert [(await shares(mailbox, name, 1, wanted, 10_000)).entries[0].completions.data for wanted in (1, 2)] == [
        THREE[1],
        THREE[1] + THREE[2],
    ]
    rest = await shares(mailbox, name, 2, 100, 10_000)
    assert [(rest.more, it.skipped, it.completions.data) for it in rest.entries] == [(False, 2, THREE[2])]
    assert await shares(mailbox, name, 3, 100, 10_000) == Entries(more=False, entries=[])


async def test_a_shard_has_no_more_where_the_wanted_end_it(mailbox: Mailbox) -> None:
    await mailbox.fill(0, [[done] for done in THREE])
    assert [(await shares(mailbox, "", 0, wanted, 10_000)).more for wanted in (2, 3)] == [True, False]


@pytest.fixture
def trips(mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The calls in each round trip from now on."""
    counted: list[int] = []
    execute_each = mailbox.parts.redis.execute_each

    async def count(calls):
        counted.append(len(calls))
        return await execute_each(calls)

    monkeypatch.setattr(mailbox.parts.redis, "execute_each", count)
    return counted


async def test_a_page_of_few_completions_takes_one_round_trip(mailbox: Mailbox, trips: list[int]) -> None:
    for shard in range(SHARDS):
        await mailbox.fill(shard, [THREE] * shard)
    start = Cursor(of=completion_list(mailbox.topology, mailbox.spout))
    assert [len((await read_completions(mailbox, start, limit))[0]) for limit in (1_000, 31)] == [30, 30]
    assert trips == [SHARDS] * 2


async def test_a_read_up_to_a_cursor_asks_a_shard_no_further(mailbox: Mailbox, trips: list[int]) -> None:
    """A shard that the cursor does not reach is not asked at all."""
    await mailbox.fill(1, [[packed(root)] for root in range(1, 100)])
    start = Cursor(of=completion_list(mailbox.topology, mailbox.spout))
    roots, until = await read_completions(mailbox, start, 3)
    trips.clear()
    assert await between(mailbox, start, until, 90) == (roots, until)
    assert trips == [1]
