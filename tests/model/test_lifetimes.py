"""What goes on its own in a store that nobody serves any more, what stays, and when a spout task was last used."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from acker_protocol.operations import Ack, EndOn, Fail, Init, Operation
from acker_service.topologies.config import TopologyConfig

from tests.support.driven_store import DrivenStore

BACKSTOP_MS = 21 * 86_400_000
DAY_MS = 86_400_000
ROOTS, LONG_VALUES = "r\0\0\0\0", "x\0\0\0\0"
"""The keys of the first bucket."""


@pytest.fixture
def store(driven_url: str) -> Iterator[DrivenStore]:
    """A store whose roots lie in one bucket."""
    store = DrivenStore(driven_url, TopologyConfig(ackers=1, buckets=1, retention_ms=DAY_MS), window_ms=60_000)
    yield store
    store.close()


def emit(
    root_id: int, *, message_timeout_ms: int = 600_000, message_id: str | None = None, traceparent: str | None = None
) -> Init:
    return Init(
        root_id=root_id,
        spout_task="s",
        ack_val=1,
        outstanding=1,
        message_timeout_ms=message_timeout_ms,
        message_id=message_id,
        traceparent=traceparent,
    )


def left_ms(store: DrivenStore, name: str) -> int | None:
    """How long a key lives on; None: for ever."""
    at = int(store.command("PEXPIRETIME", store.base + name))
    assert at != -2, f"there is no {name}"
    return None if at == -1 else at - store.now_ms


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(emit(1, message_id="m" * 100), id="a pending root with a long message id"),
        pytest.param(Fail(root_id=1, reason="early"), id="an early failure"),
        pytest.param(emit(1, traceparent=f"00-{1:032x}-{2:016x}-01"), id="a traceparent"),
    ],
)
def test_roots_go_on_their_own_in_a_store_that_nobody_serves(store: DrivenStore, first: Init | Fail) -> None:
    store.apply([first], None)
    assert [left_ms(store, name) for name in (ROOTS, LONG_VALUES)] == [BACKSTOP_MS] * 2


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param(
            [emit(1, message_id="m" * 100), Ack(root_id=1, ack_val=1, outstanding=-1)], id="a long message id"
        ),
        pytest.param([Fail(root_id=1, reason="early"), emit(1)], id="an early failure"),
        pytest.param(
            [emit(1, traceparent=f"00-{1:032x}-{2:016x}-01"), Ack(root_id=1, ack_val=1, outstanding=-1)],
            id="a traceparent",
        ),
    ],
)
def test_what_lies_beside_a_record_goes_with_it(store: DrivenStore, operations: list[Operation]) -> None:
    for operation in operations[:-1]:
        store.apply([operation], None)
    assert store.command("HLEN", store.base + LONG_VALUES) == 1
    store.apply(operations[-1:], None)
    assert store.command("HLEN", store.base + LONG_VALUES) == 0


@pytest.mark.parametrize(
    ("end", "failures"),
    [
        (Ack(root_id=1, ack_val=2, outstanding=-1), 1),
        (Fail(root_id=1, ack_val=2, outstanding=-1, reason="other"), 2),
        (Fail(root_id=1, reason="given up"), 1),
        (None, 1),
    ],
    ids=["acked", "failed", "given up", "timed out"],
)
def test_the_failure_of_a_root_that_waited_for_all_of_its_edges_goes_with_it(
    store: DrivenStore, end: Operation | None, failures: int
) -> None:
    store.apply([replace(emit(1, message_timeout_ms=1_000), ack_val=3, outstanding=2, end_on=EndOn.ALL_ENDED)], None)
    store.apply([Fail(root_id=1, ack_val=1, outstanding=-1, reason="broken")], None)
    assert store.command("HLEN", store.base + LONG_VALUES) == 1
    if end is None:
        store.advance(1_001)
        store.tick()
    else:
        store.apply([end], None)
    assert store.command("HLEN", store.base + LONG_VALUES) == 0
    [completion] = store.mailbox()
    assert completion.failures == failures


@pytest.mark.parametrize("message_id", [None, "order 42", "m" * 27])
def test_a_root_that_waits_for_all_of_its_edges_takes_eight_bytes_more_at_most(
    store: DrivenStore, message_id: str | None
) -> None:
    """Beside its reason: and none of a root that ends at its first fail."""
    sizes = []
    for root_id, end_on in ((1, None), (17, EndOn.FIRST_FAIL), (33, EndOn.ALL_ENDED)):
        begun = replace(emit(root_id, message_id=message_id), ack_val=3, outstanding=2, end_on=end_on)
        store.apply([begun], None)
        sizes.append(record_bytes(store, root_id))
    failed = Fail(root_id=33, ack_val=1, outstanding=-1, reason="broken")
    store.apply([failed], None)
    first, explicit, waits, with_failure = *sizes, record_bytes(store, 33)
    assert explicit == first
    assert first <= waits <= with_failure <= first + 8


def test_a_root_takes_five_bytes_more_once_an_edge_was_dropped(store: DrivenStore) -> None:
    store.apply([replace(emit(1), ack_val=7, outstanding=3)], None)
    begun = record_bytes(store, 1)
    store.apply([Ack(root_id=1, ack_val=1, outstanding=-1)], None)
    assert record_bytes(store, 1) == begun
    for dropped in (2, 4):
        store.apply([Ack(root_id=1, ack_val=dropped, outstanding=0, dropped=True)], None)
        assert record_bytes(store, 1) == begun + 5


def record_bytes(store: DrivenStore, root_id: int) -> int:
    """The bytes of a root's record."""
    return len(store.command("HGET", store.base + ROOTS, root_id.to_bytes(8, "big")))


def test_completions_stay_for_ever(store: DrivenStore) -> None:
    store.apply([emit(1), Ack(root_id=1, ack_val=1, outstanding=-1)], None)
    assert left_ms(store, "m0") is None


@pytest.mark.parametrize("roots", [10, 1_500], ids=["a small bucket", "an overfull bucket"])
def test_a_visit_of_the_tick_renews_what_is_kept_of_pending_roots(store: DrivenStore, roots: int) -> None:
    store.apply([emit(1, message_timeout_ms=100), *(emit(n, message_id="m" * 100) for n in range(2, roots))], None)
    store.advance(101)
    assert left_ms(store, ROOTS) == BACKSTOP_MS - 101
    store.tick()
    assert [left_ms(store, name) for name in (ROOTS, LONG_VALUES)] == [BACKSTOP_MS] * 2


def test_emitting_and_reading_use_a_spout_task_which_is_noted_once_a_second(store: DrivenStore) -> None:
    used: list[tuple[int, ...]] = []
    for step in (
        lambda: store.apply([emit(1)], None),
        store.mailbox,
        store.mailbox,
        lambda: store.apply([emit(2)], None),
    ):
        step()
        found = (store.command("HGET", store.base + name, 0) for name in ("used", "read"))
        used.append(tuple(store.now_ms - int(time) for time in found if time))
        store.advance(500)
    assert used == [(0,), (500, 0), (1_000, 500), (0, 1_000)]


def test_reading_uses_a_spout_task_under_which_nothing_was_emitted(store: DrivenStore) -> None:
    store.apply([emit(1)], None)
    store.command("DEL", store.base + "used")
    store.mailbox()
    assert int(store.command("HGET", store.base + "read", 0)) == store.now_ms
