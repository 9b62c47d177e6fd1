from acker_service.mailboxes.cursor import Position
from acker_service.mailboxes.reading import read_entries
from acker_service.redis import mailbox_functions
from acker_service.redis.mailbox_functions import Entries, ReadEntry


def packed(*root_ids: int) -> bytes:
    """Completions without texts, as they lie in an entry: root id, start, end, flags."""
    return b"".join(root_id.to_bytes(8, "big") + bytes(11) for root_id in root_ids)


def decoded(reply: list[object]) -> Entries[ReadEntry]:
    """A shard's reply as the driver reads it."""
    call = mailbox_functions.read(spout_index=0, entry="", offset=0, max_completions=10, max_bytes=100)
    return call.decode(reply)


def test_each_completion_of_a_shard_comes_with_the_position_behind_it() -> None:
    reply = [0, b"1790000000000-0", 0, packed(1, 2), b"1790000000005-18446744073709551615", 0, packed(3)]
    found = list(read_entries(decoded(reply).entries, "orders"))
    assert [(at, done.root_id) for at, done in found] == [
        (Position(ms=1_790_000_000_000, seq=0, offset=1), 1),
        (Position(ms=1_790_000_000_000, seq=0, offset=2), 2),
        (Position(ms=1_790_000_000_005, seq=2**64 - 1, offset=1), 3),
    ]
    assert {done.spout_task for _, done in found} == {"orders"}


def test_completions_already_taken_from_an_entry_are_counted() -> None:
    found = list(read_entries(decoded([1, b"5-0", 2, packed(3), b"6-0", 0, packed(4)]).entries, "orders"))
    assert [(at.entry, at.offset, done.root_id) for at, done in found] == [("5-0", 3, 3), ("6-0", 1, 4)]


def test_a_shard_says_whether_it_has_more() -> None:
    assert [decoded([more]).more for more in (0, 1)] == [False, True]


def test_an_empty_shard_has_no_entries() -> None:
    assert list(read_entries(decoded([0]).entries, "orders")) == []
