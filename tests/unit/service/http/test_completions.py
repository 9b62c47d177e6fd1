"""A page of completions is written in slices, so that a large one keeps nobody waiting."""

import asyncio
import json

import pytest
from acker_service.http.routes.completions import _show
from acker_service.mailboxes.reading import SLICE, ReadResult
from acker_service.mailboxes.runs import CompletionRun
from acker_service.redis.completion_codec import PackedCompletions
from acker_service.redis.functions.mailboxes import ReadEntry
from acker_service.topologies.cursors import Cursor, ListKind, SpoutList

pytestmark = pytest.mark.anyio

OF = SpoutList(kind=ListKind.COMPLETIONS, incarnation="0123456789abcdef", spout_task="orders", spout_index=3)


def page(shards: dict[int, list[int]]) -> ReadResult:
    """A page of entries of these lengths."""
    roots = iter(range(1, 1_000_000))
    runs = {
        shard: CompletionRun(
            ReadEntry(
                entry_id=(ms, 0),
                skipped=0,
                completions=PackedCompletions(
                    b"".join(next(roots).to_bytes(8, "big") + bytes(11) for _ in range(length))
                ),
            )
            for ms, length in enumerate(lengths, start=1)
        )
        for shard, lengths in shards.items()
    }
    return ReadResult(runs=runs, start=Cursor(of=OF))


async def turns_during(result: ReadResult) -> int:
    """Count how often another task runs while a page is written."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await asyncio.sleep(0)
    before = turns
    await _show(result)
    counting.cancel()
    return turns - before


@pytest.mark.parametrize(
    "lengths", [[10 * SLICE], [SLICE // 10] * 100, [1] * (10 * SLICE)], ids=["one entry", "some", "many"]
)
async def test_others_run_while_a_large_page_is_written(lengths: list[int]) -> None:
    assert await turns_during(page({0: lengths})) == 9


async def test_a_small_page_is_written_at_once() -> None:
    assert await turns_during(page({0: [SLICE // 2, SLICE // 2]})) == 0


@pytest.mark.parametrize(
    "shards", [{}, {0: [1]}, {0: [3], 2: [1, 2]}, {0: [SLICE + 1], 1: [1] * (2 * SLICE), 3: [SLICE - 1, 2]}]
)
async def test_a_page_holds_every_completion_once_and_the_cursor_behind_them(shards: dict[int, list[int]]) -> None:
    result = page(shards)
    document = json.loads(await _show(result))
    assert [int(done["root_id"], 16) for done in document["completions"]] == [*range(1, result.count + 1)]
    assert document["cursor"] == result.cursor.encode()
    cursors = [*result.cursors()]
    assert len(cursors) == result.count
    assert cursors[-1:] == ([result.cursor] if shards else [])
