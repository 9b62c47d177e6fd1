from acker_service.mailboxes.runs import CompletionRun
from acker_service.redis import functions
from acker_service.redis.completion_codec import decode_completions
from acker_service.redis.functions.mailboxes import Entries, ReadEntry
from acker_service.topologies.cursors import Position


def packed(*root_ids: int) -> bytes:
    """Completions without texts, as they lie in an entry: root id, start, end, flags."""
    return b"".join(root_id.to_bytes(8, "big") + bytes(11) for root_id in root_ids)


def decoded(reply: list[object]) -> Entries[ReadEntry]:
    """A shard's reply as the driver reads it."""
    call = functions.mailboxes.read(spout_index=0, entry="", offset=0, max_completions=10, max_bytes=100)
    return call.decode(reply)


def found(run: CompletionRun) -> list[tuple[Position, int]]:
    """Return each root of a run and the position behind it."""
    data = b"".join(entry.completions.data for entry in run._entries)
    return [*zip(run.positions(), (done.root_id for done in decode_completions(data, "orders")), strict=True)]


THREE = [0, b"1790000000000-0", 0, packed(1, 2), b"1790000000005-18446744073709551615", 0, packed(3)]
POSITIONS = [
    (Position(ms=1_790_000_000_000, seq=0, offset=1), 1),
    (Position(ms=1_790_000_000_000, seq=0, offset=2), 2),
    (Position(ms=1_790_000_000_005, seq=2**64 - 1, offset=1), 3),
]


def test_each_completion_of_a_shard_comes_with_the_position_behind_it() -> None:
    run = CompletionRun(decoded(THREE).entries)
    assert found(run) == POSITIONS
    assert (len(run), run.first_ms, run.end) == (3, 1_790_000_000_000, POSITIONS[-1][0])


def test_completions_already_taken_from_an_entry_are_counted() -> None:
    run = CompletionRun(decoded([1, b"5-0", 2, packed(3), b"6-0", 0, packed(4)]).entries)
    assert [(at.entry, at.offset, root) for at, root in found(run)] == [("5-0", 3, 3), ("6-0", 1, 4)]


def test_a_run_is_cut_behind_so_many_or_at_a_position() -> None:
    run = CompletionRun(decoded(THREE).entries)
    for count in range(4):
        assert found(run.take(count)) == POSITIONS[:count]
    for count, (position, _) in enumerate(POSITIONS, start=1):
        assert found(run.up_to(position)) == POSITIONS[:count]
    assert found(run.up_to(Position(ms=1, seq=0, offset=9))) == []
    assert found(run.up_to(Position(ms=1_790_000_000_004, seq=0, offset=1))) == POSITIONS[:2]


def test_a_run_goes_on_with_another() -> None:
    first, rest = (
        CompletionRun(decoded(THREE).entries),
        CompletionRun(decoded([0, b"1790000000006-0", 0, packed(4)]).entries),
    )
    assert [root for _, root in found(first + rest)] == [1, 2, 3, 4]


def test_a_cut_entry_that_was_read_in_part_ends_where_it_should() -> None:
    run = CompletionRun(decoded([0, b"5-0", 2, packed(3, 4, 5)]).entries)
    assert [root for _, root in found(run.up_to(Position(ms=5, seq=0, offset=4)))] == [3, 4]
    assert len(run.up_to(Position(ms=5, seq=0, offset=1))) == 0


def test_a_shard_says_whether_it_has_more() -> None:
    assert [decoded([more]).more for more in (0, 1)] == [False, True]


def test_an_empty_shard_has_no_entries() -> None:
    assert len(CompletionRun(decoded([0]).entries)) == 0
