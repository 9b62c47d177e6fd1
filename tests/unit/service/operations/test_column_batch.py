from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from acker_protocol.operations import Ack, Fail, Init, Operation, ResetTimeout
from acker_protocol.wire import packed
from acker_service.operations.batch import KINDS, STATES, ShardPart
from acker_service.operations.column_batch import RAW_RECORD, RECORDS, ColumnBatch
from acker_service.redis.codec import Layout, encode_operation
from acker_service.redis.column_codec import TraceFields
from hypothesis import given
from hypothesis import strategies as st

from tests.support.columns import batch_of, columns

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
records = st.fixed_dictionaries(
    {"op": st.integers(0, 5), "flags": st.integers(0, 3)},
    optional={"outstanding": st.integers(-2, 2), "root_id": st.integers(0, 2**64 - 1), "text": st.integers(0, 300)},
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


def layout(shards: int) -> Layout:
    return Layout(shards=shards, buckets=4_096)


def split(operations: Sequence[Operation], *, shards: int, capped: bool) -> list[ShardPart]:
    return batch_of(operations).split(layout(shards), capped=capped)


def orders(parts: Sequence[ShardPart]) -> list[tuple[int, list[int], list[int]]]:
    """Each part's shard, and the orders of its operations as they came and as they are applied."""
    return [(part.shard, [*map(int, part.request_order)], [*map(int, part.apply_order)]) for part in parts]


def roots(messages: Sequence[Operation], part: ShardPart) -> list[int]:
    """The roots of a part as the store meets them, each once for every time it is taken up."""
    order = [messages[index].root_id for index in part.apply_order]
    return [root for place, root in enumerate(order) if not place or order[place - 1] != root]


def test_a_record_is_as_long_as_the_packed_form_says() -> None:
    assert RECORDS.itemsize == RAW_RECORD.itemsize == packed.RECORD.size


def test_a_record_has_its_fields_where_the_packed_form_has_them() -> None:
    values = tuple(range(1, 12))
    (record,) = np.frombuffer(packed.RECORD.pack(*values), RECORDS)
    assert tuple(record.tolist()) == values


@given(st.lists(records, max_size=5))
def test_a_field_is_seen_where_any_record_has_it_and_one_kind_where_all_are_alike(some: list[dict[str, int]]) -> None:
    seen = columns(*some).overview
    assert RECORDS.names is not None
    assert {name: bool(bits) for name, bits in seen.bits.items()} == {
        name: any(record.get(name) for record in some) for name in RECORDS.names
    }
    kinds = {(record["op"], record["flags"]) for record in some}
    assert seen.is_one_kind == (len(kinds) <= 1)
    assert not seen.is_one_kind or (seen.bits["op"], seen.bits["flags"]) in kinds or not some


def test_there_are_as_many_operations_as_records() -> None:
    assert [len(columns(*[{}] * count)) for count in (0, 1, 7)] == [0, 1, 7]


def test_the_strings_that_fields_point_to_are_told_each_once_and_nothing_for_none() -> None:
    some = columns({"text": 2, "spout_task": 1}, {"text": 2}, {"component": 5}, {"text": 4}, strings=STRINGS)
    assert some.used_strings("text") == [2, 4]
    assert some.used_strings("text", "component", "spout_task") == [1, 2, 4, 5]
    assert columns({}, strings=STRINGS).used_strings("text", "component", "spout_task") == []


def test_the_spout_tasks_are_those_of_the_inits_and_no_other_strings() -> None:
    given = ((packed.INIT, 3, 2), (packed.INIT, 1, 0), (packed.INIT, 3, 0), (packed.FAIL, 0, 4))
    some = columns(*({"op": op, "spout_task": name, "text": text} for op, name, text in given), strings=STRINGS)
    assert some.spout_tasks == {"reader", "writer"}
    assert columns({"op": packed.FAIL, "text": 2}, strings=STRINGS).spout_tasks == frozenset()


def test_the_spout_tasks_of_some_inits_are_those_that_they_point_to() -> None:
    some = columns({"spout_task": 1}, {"spout_task": 3}, {"spout_task": 1}, strings=STRINGS)
    assert some.spout_tasks_of([1]) == {"writer"}
    assert some.spout_tasks_of([2, 0]) == {"reader"}
    assert some.spout_tasks_of([]) == set()


@pytest.mark.parametrize(
    ("messages", "has_inits", "ends_edges"),
    [
        ([], False, False),
        (OTHERS, False, False),
        ([*OTHERS, INIT], True, False),
        ([ACK, INIT], True, True),
        ([ACK], False, True),
        ([*OTHERS, Fail(root_id=7, ack_val=0)], False, True),
    ],
)
def test_a_batch_knows_the_kinds_of_its_operations(
    messages: list[Operation], *, has_inits: bool, ends_edges: bool
) -> None:
    batch = batch_of(messages)
    assert (batch.has_inits, batch.ends_edges) == (has_inits, ends_edges)


@pytest.mark.parametrize("capped", [False, True])
def test_no_operations_are_no_parts(capped: bool) -> None:  # noqa: FBT001 - a parameter of the test
    assert split([], shards=4, capped=capped) == []


def test_the_operations_of_one_root_go_together_in_the_order_given() -> None:
    messages = [init(1), ack(3), ack(1), init(2), ack(3)]
    assert orders(split(messages, shards=2, capped=False)) == [(1, [0, 1, 2, 4], [0, 2, 1, 4]), (0, [3], [3])]


def test_operations_on_other_roots_keep_the_order_given() -> None:
    largest = [ack(2**64 - 1), init(2**64 - 2), ack(2**64 - 4), init(2**64 - 3)]
    assert orders(split(largest, shards=2, capped=False)) == [(1, [0, 3], [0, 3]), (0, [1, 2], [1, 2])]


def test_under_a_cap_roots_without_an_init_come_first_and_the_others_by_their_first_init() -> None:
    messages = [ack(1), init(2), init(1), ack(3), Fail(root_id=4), ack(2)]
    assert orders(split(messages, shards=1, capped=True)) == [(0, [0, 1, 2, 3, 4, 5], [3, 4, 1, 5, 0, 2])]
    assert orders(split(messages, shards=1, capped=False)) == [(0, [0, 1, 2, 3, 4, 5], [0, 2, 1, 5, 3, 4])]
    assert orders(split([init(2), ack(1)], shards=1, capped=True)) == [(0, [0, 1], [1, 0])]


@given(messages=requests, shards=shard_counts, capped=caps)
def test_every_operation_goes_to_the_shard_of_its_root_once(
    messages: list[Operation],
    shards: int,
    capped: bool,  # noqa: FBT001 - drawn by its name
) -> None:
    parts = orders(split(messages, shards=shards, capped=capped))
    assert sorted(index for _, _, applied in parts for index in applied) == list(range(len(messages)))
    assert len({shard for shard, _, _ in parts}) == len(parts)
    for shard, given_order, applied in parts:
        assert {layout(shards).shard_of(messages[index].root_id) for index in applied} == {shard}
        assert given_order == sorted(applied)


@given(messages=requests, shards=shard_counts, capped=caps)
def test_a_root_is_taken_up_once_and_its_operations_keep_their_order(
    messages: list[Operation],
    shards: int,
    capped: bool,  # noqa: FBT001 - drawn by its name
) -> None:
    for part in split(messages, shards=shards, capped=capped):
        met = roots(messages, part)
        assert len(met) == len(set(met))
        for root in met:
            own = [index for index in part.apply_order if messages[index].root_id == root]
            assert own == sorted(own)


@given(messages=requests, shards=shard_counts)
def test_under_a_cap_places_go_to_first_inits_in_the_order_given(messages: list[Operation], shards: int) -> None:
    """Within a shard, and by the first of each among the shards."""
    ranks = []
    for part in split(messages, shards=shards, capped=True):
        first = dict[int, int]()
        for index in part.apply_order:
            if isinstance(messages[index], Init):
                first.setdefault(messages[index].root_id, int(index))
        assert list(first.values()) == sorted(first.values())
        met = roots(messages, part)
        without = [root for root in met if root not in first]
        assert met[: len(without)] == without
        ranks.append((bool(met[0] in first), first.get(met[0], int(part.apply_order[0]))))
    assert ranks == sorted(ranks)


@given(messages=requests, shards=shard_counts)
def test_without_a_cap_roots_come_in_the_order_of_their_first_operation(messages: list[Operation], shards: int) -> None:
    begins = []
    for part in split(messages, shards=shards, capped=False):
        firsts = [min(i for i in part.request_order if messages[i].root_id == root) for root in roots(messages, part)]
        assert firsts == sorted(firsts)
        begins.append(firsts[0])
    assert begins == sorted(begins)


def test_equal_orders_are_one_object() -> None:
    """So that the store may send them as they are."""
    for messages, is_one in (
        ([ack(1), ack(2), ack(3)], True),
        ([ack(1), ack(1), ack(2)], True),
        ([init(1), ack(1)], True),
        ([ack(1), ack(2), ack(1)], False),
    ):
        for capped in (False, True):
            (part,) = split(messages, shards=1, capped=capped)
            assert (part.request_order is part.apply_order) is is_one


@pytest.mark.parametrize(
    ("window_ms", "messages", "index"),
    [
        (0, [timed(604_800_000)], None),
        (60_000, [], None),
        (60_000, [ack(1)], None),
        (60_000, [timed(None), timed(60_000), ack(1)], None),
        (60_000, [timed(60_001)], 0),
        (60_000, [timed(60_000), ack(1), timed(60_001), timed(70_000)], 2),
    ],
)
def test_the_first_init_whose_timeout_exceeds_the_dedupe_window_is_found(
    window_ms: int, messages: list[Operation], index: int | None
) -> None:
    assert batch_of(messages).first_timeout_over(window_ms) == index


def test_operations_are_encoded_in_the_order_of_their_indexes() -> None:
    indexes = {"reader": 7, "writer": 9}
    batch = columns(
        {"op": packed.INIT, "root_id": 0xA1, "ack_val": 2, "spout_task": 3},
        {"op": packed.INIT, "root_id": 0xA2, "ack_val": 3, "spout_task": 1},
        {"op": packed.ACK, "root_id": 0xA3, "ack_val": 4},
        strings=STRINGS,
    )
    operations: list[Operation] = [
        Init(root_id=0xA1, spout_task="writer", ack_val=2),
        Init(root_id=0xA2, spout_task="reader", ack_val=3),
        Ack(root_id=0xA3, ack_val=4),
    ]
    encoded = [encode_operation(operation, layout(4), indexes.__getitem__) for operation in operations]
    encode = batch.encoder(layout(4), indexes)
    assert encode((2, 0, 1)) == encoded[2] + encoded[0] + encoded[1]
    assert encode(()) == b""


def test_a_batch_is_encoded_for_the_layout_that_is_asked_for() -> None:
    batch = batch_of([ack(10**9)])
    for shards in (1, 4, 1):
        assert batch.encoder(layout(shards), {})((0,)) == encode_operation(ack(10**9), layout(shards), len)


def test_a_batch_is_encoded_with_what_explains_roots_or_without() -> None:
    traced = replace(INIT, trace=True)
    batch = batch_of([traced])
    for with_trace_fields in (True, False):
        encoded = encode_operation(traced, layout(1), len, with_trace_fields=with_trace_fields)
        assert batch.encoder(layout(1), {"s": 1}, with_trace_fields=with_trace_fields)((0,)) == encoded


@pytest.mark.parametrize("trace_threshold", [0, 1 << 31, 1 << 32])
@given(ids=st.lists(st.integers(1, 2**64 - 1), min_size=1, max_size=20, unique=True))
def test_the_roots_below_the_threshold_are_traced(trace_threshold: int, ids: list[int]) -> None:
    batch = columns(*({"op": packed.ACK, "root_id": root_id, "ack_val": 1} for root_id in ids))
    encode = batch.encoder(layout(4), {}, trace_threshold=trace_threshold)
    encoded = [encode_operation(ack(root), layout(4), len, trace_threshold=trace_threshold) for root in ids]
    assert encode(range(len(ids))) == b"".join(encoded)


@given(messages=requests, codes=st.text("pafeducmbsAFT", min_size=22, max_size=22))
def test_operations_are_counted_by_kind_and_state(messages: list[Operation], codes: str) -> None:
    messages = [*messages, *OTHERS[: len(messages) % 3]]
    orders = [range(place, len(messages), 2) for place in range(2)]
    parts = [
        (ShardPart(shard=place, request_order=order, apply_order=order), codes[place::2][: len(order)])
        for place, order in enumerate(orders)
    ]
    pairs = [
        (KINDS[type(messages[index])], STATES[code])
        for part, own in parts
        for index, code in zip(part.apply_order, own, strict=True)
    ]
    counted = Counter[tuple[str, str]]()
    for kind, state, count in batch_of(messages).count_by_kind_and_state(parts):
        counted[kind, state] += count
    assert counted == Counter(pairs)


def test_the_operations_of_one_kind_are_counted_by_state() -> None:
    batch = batch_of([Ack(root_id=root, ack_val=1) for root in range(1, 5)])
    first, second = batch.split(Layout(shards=2, buckets=8), capped=False)
    counted = batch.count_by_kind_and_state([(first, "pa"), (second, "ap")])
    assert [*counted] == [("ack", "acked", 2), ("ack", "pending", 2)]


LONG = "m" * 1_025
GOOD = {"op": packed.INIT, "root_id": 1, "spout_task": 1}
IN_LIMITS = [
    columns(),
    columns(GOOD, {"op": packed.ACK, "root_id": 2, "component": 5}, strings=STRINGS),
    columns(GOOD | {"message_timeout_ms": 100, "progress_timeout_ms": 100}, strings=STRINGS),
    columns(GOOD | {"text": 2}, strings=("s", LONG[:1_024])),
    columns({"op": packed.FAIL, "root_id": 1, "text": 1}, strings=("ü" * 1_024,)),
]
BEYOND_LIMITS = {
    "a root id is zero": columns(GOOD | {"root_id": 0}, strings=STRINGS),
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


def test_columns_have_trace_fields_where_rows_of_them_have() -> None:
    some = batch_of([ACK, ACK])
    assert not some.has_trace_fields
    assert replace(some, trace_fields=TraceFields(names={1: b""}, traced=())).has_trace_fields
