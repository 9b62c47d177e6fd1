from dataclasses import replace

import pytest
from acker_protocol.operations import Ack, Fail, Init, Operation, ResetTimeout
from acker_service.operations.batch import ShardPart, SingleOperation
from acker_service.redis.codec import Layout, encode_operation

LAYOUT = Layout(shards=4, buckets=4_096)
INIT = Init(root_id=1, spout_task="reader", ack_val=1)
ACK = Ack(root_id=7, ack_val=1)
FAIL = Fail(root_id=2, reason="late")
RESET = ResetTimeout(root_id=3)
ALL: list[Operation] = [INIT, ACK, FAIL, RESET]


def timed(message_timeout_ms: int | None) -> Init:
    return Init(root_id=1, spout_task="s", ack_val=1, message_timeout_ms=message_timeout_ms)


def test_a_single_operation_is_one() -> None:
    assert len(SingleOperation(ACK)) == 1


@pytest.mark.parametrize(
    ("operation", "is_init", "ends_edge"),
    [
        (INIT, True, False),
        (ACK, False, True),
        (FAIL, False, False),
        (replace(FAIL, ack_val=0), False, True),
        (RESET, False, False),
    ],
)
def test_a_single_operation_is_of_its_kind(operation: Operation, *, is_init: bool, ends_edge: bool) -> None:
    single = SingleOperation(operation)
    assert (single.has_inits, single.ends_edges) == (is_init, ends_edge)


@pytest.mark.parametrize("capped", [False, True])
def test_a_single_operation_goes_to_the_shard_of_its_root(capped: bool) -> None:  # noqa: FBT001 - a parameter
    [part] = SingleOperation(ACK).split(LAYOUT, capped=capped)
    assert part == ShardPart(shard=3, request_order=(0,), apply_order=(0,))
    assert part.request_order is part.apply_order


def test_the_spout_task_is_that_of_an_init() -> None:
    assert SingleOperation(INIT).spout_tasks == {"reader"}
    assert SingleOperation(INIT).spout_tasks_of([0]) == {"reader"}
    assert SingleOperation(INIT).spout_tasks_of([]) == set()
    assert SingleOperation(ACK).spout_tasks == set()


@pytest.mark.parametrize("operation", ALL)
def test_a_single_operation_is_encoded_as_the_codec_does(operation: Operation) -> None:
    encode = SingleOperation(operation).encoder(LAYOUT, {"reader": 7}, trace_threshold=1 << 32)
    assert encode((0,)) == encode_operation(operation, LAYOUT, lambda _: 7, trace_threshold=1 << 32)
    assert encode(()) == b""
    plain = SingleOperation(operation).encoder(LAYOUT, {"reader": 7}, with_trace_fields=False, trace_threshold=1 << 32)
    assert plain((0,)) == encode_operation(operation, LAYOUT, lambda _: 7)


@pytest.mark.parametrize(
    ("window_ms", "operation", "index"),
    [
        (0, timed(604_800_000), None),
        (60_000, timed(None), None),
        (60_000, timed(60_000), None),
        (60_000, timed(60_001), 0),
        (60_000, ACK, None),
    ],
)
def test_an_init_whose_timeout_exceeds_the_dedupe_window_is_found(
    window_ms: int, operation: Operation, index: int | None
) -> None:
    assert SingleOperation(operation).first_timeout_over(window_ms) == index


def test_a_single_operation_is_counted_by_kind_and_state() -> None:
    part = ShardPart(shard=0, request_order=(0,), apply_order=(0,))
    counted = [[*SingleOperation(each).count_by_kind_and_state([(part, "f")])] for each in ALL]
    assert counted == [[(kind, "failed", 1)] for kind in ("init", "ack", "fail", "reset_timeout")]


@pytest.mark.parametrize(
    ("operation", "has_trace_fields"),
    [
        (Init(root_id=1, spout_task="s", ack_val=3, outstanding=2, edges=(1, 2)), True),
        (Init(root_id=1, spout_task="s", ack_val=3, trace=True), True),
        (Ack(root_id=1, ack_val=7, outstanding=1, edge_id=4, children=(1, 2)), True),
        (Ack(root_id=1, ack_val=4, outstanding=-1, edge_id=4, children=()), False),
        (INIT, False),
        (ACK, False),
        (FAIL, False),
    ],
)
def test_names_of_edges_and_a_trace_only_explain_the_root(
    operation: Operation,
    has_trace_fields: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    assert SingleOperation(operation).has_trace_fields is has_trace_fields
