from collections.abc import Sequence

import pytest
from acker_protocol.operations import Ack, Fail, Init, Operation, ResetTimeout
from acker_service.operations.batch import ListBatch, ShardPart
from acker_service.redis.codec import Layout, encode_operation
from hypothesis import given
from hypothesis import strategies as st

requests = st.lists(
    st.one_of(
        st.builds(Init, root_id=st.integers(1, 9), spout_task=st.just("s"), ack_val=st.just(1)),
        st.builds(Ack, root_id=st.integers(1, 9), ack_val=st.just(1)),
    ),
    max_size=20,
)
shard_counts = st.integers(1, 5)
caps = st.booleans()


def init(root_id: int) -> Init:
    return Init(root_id=root_id, spout_task="s", ack_val=1)


def timed(message_timeout_ms: int | None) -> Init:
    return Init(root_id=1, spout_task="s", ack_val=1, message_timeout_ms=message_timeout_ms)


def ack(root_id: int) -> Ack:
    return Ack(root_id=root_id, ack_val=1)


def layout(shards: int) -> Layout:
    return Layout(shards=shards, buckets=4_096)


def split(operations: Sequence[Operation], *, shards: int, capped: bool) -> list[ShardPart]:
    return ListBatch(operations).split(layout(shards), capped=capped)


def roots(messages: Sequence[Operation], part: ShardPart) -> list[int]:
    """The roots of a part as the store meets them, each once for every time it is taken up."""
    order = [messages[index].root_id for index in part.apply_order]
    return [root for place, root in enumerate(order) if not place or order[place - 1] != root]


@pytest.mark.parametrize("capped", [False, True])
def test_no_operations_are_no_parts(capped: bool) -> None:  # noqa: FBT001 - a parameter of the test
    assert split([], shards=4, capped=capped) == []


def test_the_operations_of_one_root_go_together_in_the_order_given() -> None:
    messages = [init(1), ack(3), ack(1), init(2), ack(3)]
    assert split(messages, shards=2, capped=False) == [
        ShardPart(shard=1, request_order=(0, 1, 2, 4), apply_order=(0, 2, 1, 4)),
        ShardPart(shard=0, request_order=(3,), apply_order=(3,)),
    ]


def test_under_a_cap_roots_without_an_init_come_first_and_the_others_by_their_first_init() -> None:
    messages = [ack(1), init(2), init(1), ack(3), Fail(root_id=4), ack(2)]
    assert split(messages, shards=1, capped=True) == [
        ShardPart(shard=0, request_order=(0, 1, 2, 3, 4, 5), apply_order=(3, 4, 1, 5, 0, 2)),
    ]


@given(messages=requests, shards=shard_counts, capped=caps)
def test_every_operation_goes_to_the_shard_of_its_root_once(
    messages: list[Operation],
    shards: int,
    capped: bool,  # noqa: FBT001 - drawn by its name
) -> None:
    parts = split(messages, shards=shards, capped=capped)
    assert sorted(index for part in parts for index in part.apply_order) == list(range(len(messages)))
    assert len({part.shard for part in parts}) == len(parts)
    for part in parts:
        assert {layout(shards).shard_of(messages[index].root_id) for index in part.apply_order} == {part.shard}
        assert part.request_order == tuple(sorted(part.apply_order))


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
    for part in split(messages, shards=shards, capped=True):
        first = dict[int, int]()
        for index in part.apply_order:
            if isinstance(messages[index], Init):
                first.setdefault(messages[index].root_id, index)
        assert list(first.values()) == sorted(first.values())
        without = [root for root in roots(messages, part) if root not in first]
        assert roots(messages, part)[: len(without)] == without


@given(messages=requests, shards=shard_counts)
def test_without_a_cap_roots_come_in_the_order_of_their_first_operation(messages: list[Operation], shards: int) -> None:
    for part in split(messages, shards=shards, capped=False):
        firsts = [min(i for i in part.request_order if messages[i].root_id == root) for root in roots(messages, part)]
        assert firsts == sorted(firsts)


OTHERS: list[Operation] = [Fail(root_id=1), ResetTimeout(root_id=1)]


@pytest.mark.parametrize(
    ("messages", "kinds"),
    [([], set()), (OTHERS, set()), ([*OTHERS, init(1)], {Init}), ([ack(1), init(1)], {Ack, Init}), ([ack(1)], {Ack})],
)
def test_a_batch_contains_the_kinds_of_its_operations(messages: list[Operation], kinds: set[type]) -> None:
    assert {kind for kind in (Init, Ack) if ListBatch(messages).contains(kind)} == kinds


def test_equal_orders_are_one_object() -> None:
    [in_order], [grouped] = (
        split(messages, shards=1, capped=False) for messages in ([init(1), ack(2)], [init(1), ack(2), ack(1)])
    )
    assert in_order.request_order is in_order.apply_order
    assert grouped.request_order is not grouped.apply_order


def test_a_batch_is_as_long_as_its_list() -> None:
    assert [len(ListBatch([ack(1)] * count)) for count in (0, 1, 7)] == [0, 1, 7]


def test_the_spout_tasks_are_those_of_the_inits() -> None:
    inits = [
        Init(root_id=root, spout_task=name, ack_val=1) for root, name in ((1, "reader"), (2, "writer"), (3, "reader"))
    ]
    assert ListBatch([*inits, ack(1)]).spout_tasks == {"reader", "writer"}
    assert ListBatch([ack(1)]).spout_tasks == set()
    assert ListBatch([*inits, ack(1)]).spout_tasks_of([0]) == {inits[0].spout_task}
    assert ListBatch([*inits, ack(1)]).spout_tasks_of([]) == set()


def test_operations_are_encoded_in_the_order_of_their_indexes() -> None:
    operations = [init(1), ack(2), Fail(root_id=3, reason="late")]
    encoded = [encode_operation(operation, layout(4), {"s": 7}.__getitem__) for operation in operations]
    encode = ListBatch(operations).encoder(layout(4), {"s": 7})
    assert encode((2, 0)) == encoded[2] + encoded[0]
    assert encode(()) == b""


@pytest.mark.parametrize(
    ("window_ms", "messages", "index"),
    [
        (0, [timed(604_800_000)], None),
        (60_000, [], None),
        (60_000, [timed(None), timed(60_000), Ack(root_id=1, ack_val=1)], None),
        (60_000, [timed(60_001)], 0),
        (60_000, [timed(60_000), Ack(root_id=1, ack_val=1), timed(60_001), timed(70_000)], 2),
    ],
)
def test_the_first_init_whose_timeout_exceeds_the_dedupe_window_is_found(
    window_ms: int, messages: list[Operation], index: int | None
) -> None:
    assert ListBatch(messages).first_timeout_over(window_ms) == index


def test_operations_are_counted_by_kind_and_state() -> None:
    batch = ListBatch([init(1), ack(1), ack(2), Fail(root_id=4), ResetTimeout(root_id=3), ack(6)])
    part = ShardPart(shard=0, request_order=(0, 1, 2, 4, 5), apply_order=(0, 1, 2, 5, 4))
    assert {*batch.count_by_kind_and_state(part, "paaFu")} == {
        ("init", "pending", 1),
        ("ack", "acked", 2),
        ("ack", "finished", 1),
        ("reset_timeout", "unknown", 1),
    }


def test_a_single_operation_is_counted_by_kind_and_state() -> None:
    part = ShardPart(shard=0, request_order=(1,), apply_order=(1,))
    assert [*ListBatch([ack(1), Fail(root_id=2)]).count_by_kind_and_state(part, "f")] == [("fail", "failed", 1)]


@pytest.mark.parametrize(
    ("operation", "is_explained"),
    [
        (Init(root_id=1, spout_task="s", ack_val=3, outstanding=2, edges=(1, 2)), True),
        (Init(root_id=1, spout_task="s", ack_val=3, trace=True), True),
        (Ack(root_id=1, ack_val=7, outstanding=1, edge_id=4, children=(1, 2)), True),
        (Ack(root_id=1, ack_val=4, outstanding=-1, edge_id=4, children=()), False),
        (init(1), False),
        (ack(1), False),
        (Fail(root_id=1), False),
    ],
)
def test_a_batch_is_explained_by_names_of_edges_and_by_roots_that_are_traced(
    operation: Operation,
    is_explained: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    assert ListBatch([ack(2), operation]).is_explained is is_explained
