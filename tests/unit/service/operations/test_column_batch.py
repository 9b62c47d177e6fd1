from dataclasses import replace

import numpy as np
import pytest
from acker_protocol.operations import Ack, Fail, Init, Operation, ResetTimeout
from acker_protocol.wire import packed
from acker_service.operations.batch import ListBatch, OperationBatch, ShardPart
from acker_service.operations.column_batch import RAW_RECORD, RECORDS, ColumnBatch
from acker_service.redis.codec import Layout
from acker_service.redis.column_codec import Explained
from hypothesis import given
from hypothesis import strategies as st

from tests.support.columns import columns, columns_of

INIT = Init(root_id=1, spout_task="s", ack_val=2)
ACK = Ack(root_id=1, ack_val=2)
OTHERS: list[Operation] = [Fail(root_id=1), ResetTimeout(root_id=1)]
requests = st.lists(
    st.one_of(
        st.builds(Init, root_id=st.integers(1, 9), spout_task=st.just("s"), ack_val=st.just(1)),
        st.builds(Ack, root_id=st.integers(1, 9), ack_val=st.just(1)),
    ),
    max_size=20,
)
shard_counts = st.integers(1, 5)
caps = st.booleans()
STRINGS = ("reader", "42", "writer", "late", "bolt")


def init(root_id: int) -> Init:
    return Init(root_id=root_id, spout_task="s", ack_val=1)


def timed(message_timeout_ms: int | None) -> Init:
    return Init(root_id=1, spout_task="s", ack_val=1, message_timeout_ms=message_timeout_ms)


def ack(root_id: int) -> Ack:
    return Ack(root_id=root_id, ack_val=1)


def split(batch: OperationBatch, *, shards: int, capped: bool) -> list[ShardPart]:
    return batch.split(Layout(shards=shards, buckets=4_096), capped=capped)


def test_a_record_is_as_long_as_the_packed_form_says() -> None:
    assert RECORDS.itemsize == RAW_RECORD.itemsize == packed.RECORD.size


def test_a_record_has_its_fields_where_the_packed_form_has_them() -> None:
    values = tuple(range(1, 12))
    (record,) = np.frombuffer(packed.RECORD.pack(*values), RECORDS)
    assert tuple(record.tolist()) == values


def test_there_are_as_many_operations_as_records() -> None:
    assert [len(columns(*[{}] * count)) for count in (0, 1, 7)] == [0, 1, 7]


def test_the_strings_that_fields_point_to_are_told_each_once_and_nothing_for_none() -> None:
    some = columns({"text": 2, "spout_task": 1}, {"text": 2}, {"component": 5}, {"text": 4}, strings=STRINGS)
    assert some.used_strings("text") == [2, 4]
    assert some.used_strings("text", "component", "spout_task") == [1, 2, 4, 5]
    assert columns({}, strings=STRINGS).used_strings("text", "component", "spout_task") == []


def test_the_spout_tasks_are_those_that_are_pointed_to_and_no_other_strings() -> None:
    some = columns({"spout_task": 3, "text": 2}, {"spout_task": 1}, {"spout_task": 3}, {"text": 4}, strings=STRINGS)
    assert some.spout_tasks == {"reader", "writer"}
    assert columns({"text": 2}, strings=STRINGS).spout_tasks == frozenset()


def test_the_spout_tasks_of_some_inits_are_those_that_they_point_to() -> None:
    some = columns({"spout_task": 1}, {"spout_task": 3}, {"spout_task": 1}, strings=STRINGS)
    assert some.spout_tasks_of([1]) == {"writer"}
    assert some.spout_tasks_of([2, 0]) == {"reader"}
    assert some.spout_tasks_of([]) == set()


@pytest.mark.parametrize(
    ("messages", "kinds"),
    [([], set()), (OTHERS, set()), ([*OTHERS, INIT], {Init}), ([ACK, INIT], {Ack, Init}), ([ACK], {Ack})],
)
def test_messages_and_columns_of_them_hold_the_same_kinds(messages: list[Operation], kinds: set[type]) -> None:
    for form in (ListBatch(messages), columns_of(messages)):
        assert {kind for kind in (Init, Ack) if form.contains(kind)} == kinds


def test_no_operations_are_no_parts() -> None:
    assert split(columns(), shards=4, capped=False) == split(columns(), shards=4, capped=True) == []


@pytest.mark.parametrize("capped", [False, True])
@pytest.mark.parametrize(
    "messages",
    [
        [ack(5), ack(2), ack(9), ack(4)],
        [init(1), ack(3), ack(1), init(2), ack(3)],
        [ack(1), init(2), init(1), ack(3), Fail(root_id=4), ack(2)],
        [ack(2**64 - 1), init(2**64 - 2), ack(2**64 - 2), init(2**64 - 1)],
    ],
    ids=["each root once", "roots that come again", "acks before their init", "the largest roots"],
)
def test_columns_go_where_messages_go_in_the_same_order(
    messages: list[Operation],
    capped: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    for shards in (1, 2, 3, 128):
        expected = [_plain(part) for part in split(ListBatch(messages), shards=shards, capped=capped)]
        assert [_plain(part) for part in split(columns_of(messages), shards=shards, capped=capped)] == expected


def _plain(part: ShardPart) -> tuple[int, list[int], list[int]]:
    return part.shard, [*map(int, part.request_order)], [*map(int, part.apply_order)]


@given(messages=requests, shards=shard_counts, capped=caps)
def test_whatever_goes_together_columns_go_where_messages_go(
    messages: list[Operation],
    shards: int,
    capped: bool,  # noqa: FBT001 - drawn by its name
) -> None:
    expected = [_plain(part) for part in split(ListBatch(messages), shards=shards, capped=capped)]
    assert [_plain(part) for part in split(columns_of(messages), shards=shards, capped=capped)] == expected


def test_columns_that_lie_in_order_are_one_object_as_given_and_as_applied() -> None:
    """So that the store may send them as they are."""
    (part,) = split(columns_of([ack(1), ack(2), ack(3)]), shards=1, capped=False)
    assert part.request_order is part.apply_order
    (part,) = split(columns_of([ack(1), ack(2), ack(1)]), shards=1, capped=False)
    assert part.request_order is not part.apply_order


@pytest.mark.parametrize(
    ("window_ms", "messages", "index"),
    [
        (0, [timed(604_800_000)], None),
        (60_000, [], None),
        (60_000, [timed(None), timed(60_000), ack(1)], None),
        (60_000, [timed(60_001)], 0),
        (60_000, [timed(60_000), ack(1), timed(60_001), timed(70_000)], 2),
    ],
)
def test_the_first_init_whose_timeout_exceeds_the_dedupe_window_is_found(
    window_ms: int, messages: list[Operation], index: int | None
) -> None:
    assert columns_of(messages).first_timeout_over(window_ms) == index


def test_columns_are_encoded_to_the_bytes_of_messages() -> None:
    layout, indexes = Layout(shards=4, buckets=16), {"reader": 7, "writer": 9}
    batch = columns(
        {"op": packed.INIT, "root_id": 0xA1, "ack_val": 2, "spout_task": 3},
        {"op": packed.INIT, "root_id": 0xA2, "ack_val": 3, "spout_task": 1},
        {"op": packed.ACK, "root_id": 0xA3, "ack_val": 4},
        strings=STRINGS,
    )
    same = ListBatch(
        [
            Init(root_id=0xA1, spout_task="writer", ack_val=2),
            Init(root_id=0xA2, spout_task="reader", ack_val=3),
            Ack(root_id=0xA3, ack_val=4),
        ]
    )
    assert batch.encoder(layout, indexes)((2, 0, 1)) == same.encoder(layout, indexes)((2, 0, 1))


@pytest.mark.parametrize("trace_threshold", [0, 1 << 31, 1 << 32])
@given(roots=st.lists(st.integers(1, 2**64 - 1), min_size=1, max_size=20, unique=True))
def test_columns_say_of_the_same_roots_as_messages_that_they_are_traced(trace_threshold: int, roots: list[int]) -> None:
    layout = Layout(shards=4, buckets=16)
    by_columns = columns(*({"op": packed.ACK, "root_id": root_id, "ack_val": 1} for root_id in roots))
    by_messages = ListBatch([ack(root_id) for root_id in roots])
    encoded, expected = (
        batch.encoder(layout, {}, trace_threshold=trace_threshold)(range(len(roots)))
        for batch in (by_columns, by_messages)
    )
    assert encoded == expected


@given(messages=requests, codes=st.text("pafeducmbsAFT", min_size=20, max_size=20))
def test_columns_are_counted_like_messages(messages: list[Operation], codes: str) -> None:
    order = range(0, len(messages), 2)
    part = ShardPart(shard=0, request_order=order, apply_order=order)
    own = codes[: len(order)]
    counted = ListBatch(messages).count_by_kind_and_state(part, own)
    assert sorted(columns_of(messages).count_by_kind_and_state(part, own)) == sorted(counted)


LONG = "m" * 1_025
GOOD = {"op": packed.INIT, "root_id": 1, "spout_task": 1}
IN_LIMITS = [
    columns(),
    columns(GOOD, {"op": packed.ACK, "root_id": 2, "component": 5}, strings=STRINGS),
    columns(GOOD | {"message_timeout_ms": 100, "progress_timeout_ms": 100}, strings=STRINGS),
    columns(GOOD | {"text": 2}, strings=("s", LONG[:1_024])),
]
BEYOND_LIMITS = {
    "a root id is zero": columns(GOOD | {"root_id": 0}, strings=STRINGS),
    "a string is not in the table": columns(GOOD | {"component": 6}, strings=STRINGS),
    "a timeout is out of range": columns(GOOD, GOOD | {"message_timeout_ms": 99}, strings=STRINGS),
    "an init names no spout task": columns({"op": packed.INIT, "root_id": 1}, strings=STRINGS),
    "must be a name": columns(GOOD, strings=("s" * 129,)),
    "at most 1024 bytes": columns(GOOD | {"text": 2}, strings=("s", LONG)),
    "at most 1024 characters": columns({"op": packed.FAIL, "root_id": 1, "text": 1}, strings=(LONG,)),
}


@pytest.mark.parametrize("batch", IN_LIMITS)
def test_values_within_the_limits_of_the_contract_pass_the_check(batch: ColumnBatch) -> None:
    batch.check()


@pytest.mark.parametrize(("error", "batch"), BEYOND_LIMITS.items(), ids=BEYOND_LIMITS)
def test_a_value_beyond_a_limit_of_the_contract_fails_the_check(error: str, batch: ColumnBatch) -> None:
    with pytest.raises(ValueError, match=error):
        batch.check()


def test_columns_are_explained_where_rows_of_them_are() -> None:
    some = columns_of([ACK, ACK])
    assert not some.is_explained
    assert replace(some, explained=Explained(names={1: b""}, traced=())).is_explained
