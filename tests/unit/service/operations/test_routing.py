from collections.abc import Sequence

import pytest
from acker_protocol.operations import Ack, Fail, Init, Operation
from acker_service.operations.routing import ShardPart, bucket_of, shard_of, split
from hypothesis import given
from hypothesis import strategies as st

from tests.support.columns import columns, columns_of
from tests.support.strategies import ids

requests = st.lists(
    st.one_of(
        st.builds(Init, root_id=st.integers(1, 9), spout_task=st.just("s"), ack_val=st.just(1)),
        st.builds(Ack, root_id=st.integers(1, 9), ack_val=st.just(1)),
    ),
    max_size=20,
)
shard_counts = st.integers(1, 5)
caps = st.none() | st.integers(1, 3)


def init(root_id: int) -> Init:
    return Init(root_id=root_id, spout_task="s", ack_val=1)


def ack(root_id: int) -> Ack:
    return Ack(root_id=root_id, ack_val=1)


def roots(messages: Sequence[Operation], part: ShardPart) -> list[int]:
    """The roots of a part as the store meets them, each once for every time it is taken up."""
    order = [messages[index].root_id for index in part.apply_order]
    return [root for place, root in enumerate(order) if not place or order[place - 1] != root]


@given(root_id=ids, shards=st.integers(1, 128), buckets=st.integers(1, 4_096))
def test_a_root_lives_in_one_of_the_shards_and_one_of_their_buckets(root_id: int, shards: int, buckets: int) -> None:
    assert shard_of(root_id, shards) in range(shards)
    assert bucket_of(root_id, shards, buckets) in range(buckets)


def test_roots_that_follow_each_other_fill_all_shards_and_all_buckets_alike() -> None:
    places = [(shard_of(root, 3), bucket_of(root, 3, 4)) for root in range(12)]
    assert sorted(places) == [(shard, bucket) for shard in range(3) for bucket in range(4)]


@pytest.mark.parametrize(
    ("root_id", "shard", "bucket"), [(1, 1, 0), (4, 0, 1), (0xA1, 1, 40), (2**64 - 1, 3, (2**62 - 1) % 4_096)]
)
def test_a_root_stays_where_it_was_put_by_earlier_releases(root_id: int, shard: int, bucket: int) -> None:
    assert (shard_of(root_id, 4), bucket_of(root_id, 4, 4_096)) == (shard, bucket)


@pytest.mark.parametrize("capped", [None, 1])
def test_no_operations_are_no_parts(capped: int | None) -> None:
    assert split([], shards=4, capped=capped) == split(columns(), shards=4, capped=capped) == []


def test_the_operations_of_one_root_go_together_in_the_order_given() -> None:
    messages = [init(1), ack(3), ack(1), init(2), ack(3)]
    assert split(messages, shards=2, capped=None) == [
        ShardPart(shard=1, request_order=(0, 1, 2, 4), apply_order=(0, 2, 1, 4)),
        ShardPart(shard=0, request_order=(3,), apply_order=(3,)),
    ]


@pytest.mark.parametrize("capped", [None, 1])
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
def test_columns_go_where_messages_go_in_the_same_order(messages: list[Operation], capped: int | None) -> None:
    for shards in (1, 2, 3, 128):
        expected = [_plain(part) for part in split(messages, shards=shards, capped=capped)]
        assert [_plain(part) for part in split(columns_of(messages), shards=shards, capped=capped)] == expected


def _plain(part: ShardPart) -> tuple[int, list[int], list[int]]:
    return part.shard, [*map(int, part.request_order)], [*map(int, part.apply_order)]


@given(messages=requests, shards=shard_counts, capped=caps)
def test_whatever_goes_together_columns_go_where_messages_go(
    messages: list[Operation], shards: int, capped: int | None
) -> None:
    expected = [_plain(part) for part in split(messages, shards=shards, capped=capped)]
    assert [_plain(part) for part in split(columns_of(messages), shards=shards, capped=capped)] == expected


def test_columns_that_lie_in_order_are_one_object_as_given_and_as_applied() -> None:
    """So that the store may send them as they are."""
    (part,) = split(columns_of([ack(1), ack(2), ack(3)]), shards=1, capped=None)
    assert part.request_order is part.apply_order
    (part,) = split(columns_of([ack(1), ack(2), ack(1)]), shards=1, capped=None)
    assert part.request_order is not part.apply_order


def test_under_a_cap_roots_without_an_init_come_first_and_the_others_by_their_first_init() -> None:
    messages = [ack(1), init(2), init(1), ack(3), Fail(root_id=4), ack(2)]
    assert split(messages, shards=1, capped=1) == [
        ShardPart(shard=0, request_order=(0, 1, 2, 3, 4, 5), apply_order=(3, 4, 1, 5, 0, 2)),
    ]


@given(messages=requests, shards=shard_counts, capped=caps)
def test_every_operation_goes_to_the_shard_of_its_root_once(
    messages: list[Operation], shards: int, capped: int | None
) -> None:
    parts = split(messages, shards=shards, capped=capped)
    assert sorted(index for part in parts for index in part.apply_order) == list(range(len(messages)))
    assert len({part.shard for part in parts}) == len(parts)
    for part in parts:
        assert {shard_of(messages[index].root_id, shards) for index in part.apply_order} == {part.shard}
        assert part.request_order == tuple(sorted(part.apply_order))


@given(messages=requests, shards=shard_counts, capped=caps)
def test_a_root_is_taken_up_once_and_its_operations_keep_their_order(
    messages: list[Operation], shards: int, capped: int | None
) -> None:
    for part in split(messages, shards=shards, capped=capped):
        met = roots(messages, part)
        assert len(met) == len(set(met))
        for root in met:
            own = [index for index in part.apply_order if messages[index].root_id == root]
            assert own == sorted(own)


@given(messages=requests, shards=shard_counts)
def test_under_a_cap_places_go_to_first_inits_in_the_order_given(messages: list[Operation], shards: int) -> None:
    for part in split(messages, shards=shards, capped=1):
        first = dict[int, int]()
        for index in part.apply_order:
            if isinstance(messages[index], Init):
                first.setdefault(messages[index].root_id, index)
        assert list(first.values()) == sorted(first.values())
        without = [root for root in roots(messages, part) if root not in first]
        assert roots(messages, part)[: len(without)] == without


@given(messages=requests, shards=shard_counts)
def test_without_a_cap_roots_come_in_the_order_of_their_first_operation(messages: list[Operation], shards: int) -> None:
    for part in split(messages, shards=shards, capped=None):
        firsts = [min(i for i in part.request_order if messages[i].root_id == root) for root in roots(messages, part)]
        assert firsts == sorted(firsts)
