"""The fast path of the library answers and stores what the state machine does: the same steps, with and without it."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal

import pytest
from acker_protocol.operations import Ack, EndOn, Fail, Init, Operation, ResetTimeout
from acker_service.redis import codec, library
from acker_service.redis.functions.apply import ApplyLimits
from acker_service.topologies.config import TopologyConfig
from redis import Redis

from tests.support.driven_store import DrivenStore

ON, OFF = "local FAST_PATH = true", "local FAST_PATH = false"
STEPS = 60
CONFIGURATIONS = {
    "plain": TopologyConfig(ackers=1, buckets=2),
    "with edges that are acked once": TopologyConfig(ackers=1, buckets=2, dedupe_window_ms=40_000),
    "with a cap": TopologyConfig(ackers=1, buckets=2, max_spout_pending=3),
    "with a progress timeout": TopologyConfig(ackers=1, buckets=2, progress_timeout_ms=5_000),
    # no outcome expires here: the two look for that at other times where a timeout is longer than the retention
    "for a week": TopologyConfig(ackers=1, buckets=2, message_timeout_ms=7 * 86_400_000, retention_ms=86_400_000),
    "without ackers": TopologyConfig(ackers=0, buckets=2),
    "that end when all have ended": TopologyConfig(
        ackers=1, buckets=2, end_on=EndOn.ALL_ENDED, dedupe_window_ms=40_000
    ),
    "with traces": TopologyConfig(ackers=1, buckets=2, trace=0.5, dedupe_window_ms=40_000),
    "with traces and without details": TopologyConfig(ackers=1, buckets=2, trace=1, root_details=False),
}


def draw(source: random.Random) -> Operation:
    """Draw an operation on one of few roots; most are inits and acks without more, and values often cancel."""
    return draw_plain(source) if source.random() < 0.6 else draw_any(source)


def draw_plain(source: random.Random) -> Operation:
    """Draw what the fast path applies, so that most trees end by it, or what differs from that in one field."""
    root_id, component = source.randint(1, 6), source.choice([None, "bolt"])
    if source.random() < 0.5:
        return Ack(
            root_id=root_id, ack_val=1, outstanding=-1, edge_id=source.choice([None, None, 1]), component=component
        )
    init = Init(root_id=root_id, spout_task="s", ack_val=1, outstanding=source.choice([1, 1, 1, 2]))
    others: list[dict[str, Any]] = [
        {},
        {"message_id": "order 1"},
        {"message_id": "m" * 36, "trace": True},
        {"ack_val": 0, "outstanding": 0},
        {"traceparent": f"00-{1:032x}-{2:016x}-01"},
    ]
    return replace(init, **source.choice([others[0], *others]))


def draw_any(source: random.Random) -> Operation:
    """Draw an operation of any kind, with any fields."""
    root_id, value = source.randint(1, 6), source.choice([0, 1, 1, 1, 2, 3, 2**63, 2**64 - 1])
    outstanding = source.choice([1, 1, 1, 0, -1, -1, None, 32_767, -32_768, 32_768, 2**31 - 1])
    component = source.choice([None, None, "bolt"])
    match source.choice(["init", "init", "ack", "ack", "ack", "ack", "fail", "reset"]):
        case "init":
            return Init(
                root_id=root_id,
                spout_task=source.choice(["s", "z"]),
                ack_val=value,
                outstanding=outstanding,
                message_id=source.choice([None, "", "order 1", "m" * 36, "m" * 37, "m" * 100]),
                message_timeout_ms=source.choice([None, None, None, 3_000, 20_000_000]),
                trace=source.choice([None, None, True]),
                traceparent=source.choice([None, None, None, f"00-{1:032x}-{2:016x}-01"]),
                end_on=source.choice([None, None, None, EndOn.FIRST_FAIL, EndOn.ALL_ENDED]),
            )
        case "ack":
            edge_id = source.choice([None, 1, 2, 2**64 - 1])
            return Ack(
                root_id=root_id,
                ack_val=value,
                outstanding=outstanding,
                edge_id=edge_id,
                component=component,
                children=source.choice([None, (5, 6)]),
                dropped=source.random() < 0.1,
            )
        case "fail":
            fail = Fail(root_id=root_id, reason=source.choice([None, "broken"]), component=component)
            if source.random() < 0.5:
                return fail
            return replace(fail, ack_val=value, outstanding=outstanding, edge_id=source.choice([None, 1, 2]))
        case _:
            return ResetTimeout(root_id=root_id)


def stored(redis: Redis, base: str) -> dict[bytes, Any]:
    """What a shard keeps, and until when: but for names of mailbox entries, which Redis's own clock makes, and scores.

    A bucket is scored lower by the fast path if it holds a root that began and ended in one call; so the tick visits
    it earlier, and renews its expiry.
    """
    found: dict[bytes, Any] = {}
    for key in redis.keys(f"{base}*"):
        name = key.removeprefix(base.encode())
        value: Any
        match redis.type(key):
            case b"hash":
                value = sorted(redis.execute_command("HGETALL", key).items())
            case b"set":
                value = sorted(redis.smembers(key))
            case b"zset":
                value = sorted(redis.zrange(key, 0, -1))
            case b"stream":
                value = [fields for _, fields in redis.xrange(key)]
            case _:
                value = redis.get(key)
        expires = redis.execute_command("PEXPIRETIME", key)
        if name != b"tips":
            found[name] = (value, expires > 0 if name[:1] in b"rx" else expires)
    return found


@pytest.fixture
def make(driven_url: str) -> Iterator[Callable[..., DrivenStore]]:
    stores: list[DrivenStore] = []

    def made(configuration: TopologyConfig, text: str, max_early: int, **bounds: int) -> DrivenStore:
        store = DrivenStore(driven_url, configuration, window_ms=60_000, max_early=max_early, text=text, **bounds)
        stores.append(store)
        return stores[-1]

    yield made
    for store in stores:
        store.close()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_it_answers_and_stores_what_the_state_machine_does(
    make: Callable[..., DrivenStore], driven_url: str, name: str, seed: int
) -> None:
    assert library.source().count(ON) == 1
    seen = []
    for text in (library.source(), library.source().replace(ON, OFF)):
        source = random.Random(f"{name} {seed}")
        bounds = {
            "remembered_max_bytes": source.choice([4_000, 1 << 30]),
            "remembered_if_full": source.choice([0, 2_000]),
        }
        store = make(CONFIGURATIONS[name], text, source.choice([1, 1_000]), **bounds)
        seen.append(list(steps(store, driven_url, source)))
    for fast, slow in zip(*seen, strict=True):
        assert fast == slow


def steps(store: DrivenStore, url: str, source: random.Random) -> Iterator[Any]:
    """Take steps, and yield what each was answered, and at times what is stored.

    Before them "bolt" gets its number: the fast path gives none to the component of a last ack, which no record names.
    """
    named = Ack(root_id=7, ack_val=1, outstanding=-1, component="bolt")
    store.apply([Init(root_id=7, spout_task="s", ack_val=2, outstanding=2), named], None)
    with Redis.from_url(url) as redis:
        for step in range(STEPS):
            operations = [draw(source) for _ in range(source.randint(1, 9))]
            if source.random() < 0.5:
                operations.sort(key=lambda operation: operation.root_id)
            yield operations, store.apply(operations, source.choice([None, f"key {step}", f"key {step - 1}"]))
            store.fill(is_full=source.random() < 0.1)
            if source.random() < 0.3:
                store.advance(source.choice([1, 1_000, 3_001, 30_001, 70_000]))
            if source.random() < 0.2:
                store.tick()
            if step % 3 == 0:
                yield stored(redis, store.base)


@pytest.mark.parametrize(
    ("message_id", "trace"),
    [(None, None), ("order 1", None), ("m" * 36, None), (None, True), ("m" * 35, True)],
    ids=["bare", "short", "as long as may be", "traced", "traced, as long as may be"],
)
def test_inits_and_acks_with_all_that_clients_name_take_it(
    make: Callable[..., DrivenStore], message_id: str | None, trace: Literal[True] | None
) -> None:
    """Without the state machine nothing else answers."""
    head = "  function apply_operation(call, root, op, kind)\n"
    text = library.source().replace(head, f"{head}    if true then return '?' end\n")
    assert text != library.source()
    for configuration in (CONFIGURATIONS["plain"], CONFIGURATIONS["for a week"], CONFIGURATIONS["with a cap"]):
        store = make(configuration, text, 1)
        begun = Init(root_id=1, spout_task="s", ack_val=3, outstanding=2, message_id=message_id, trace=trace)
        edges = [Ack(root_id=1, ack_val=edge, outstanding=-1, edge_id=edge, component="bolt") for edge in (1, 2)]
        states = [store.apply([operation], None)[0][0][0].value for operation in (begun, *edges)]
        assert states == ["pending", "pending", "acked"]
        [completion] = store.mailbox()
        assert (completion.root_id, completion.message_id) == (1, message_id)


@pytest.mark.parametrize("message_id", [None, "", "order 1", "m" * 100], ids=["none", "empty", "short", "long"])
@pytest.mark.parametrize("message_timeout_ms", [None, 3_000])
@pytest.mark.parametrize("trace", [None, True])
def test_an_ack_of_a_later_call_ends_a_root_with_its_message_id(
    make: Callable[..., DrivenStore],
    message_id: str | None,
    message_timeout_ms: int | None,
    trace: Literal[True] | None,
) -> None:
    store = make(CONFIGURATIONS["plain"], library.source(), 1)
    begun = Init(
        root_id=1,
        spout_task="s",
        ack_val=1,
        message_id=message_id,
        message_timeout_ms=message_timeout_ms,
        outstanding=1,
        trace=trace,
    )
    store.apply([begun], None)
    store.advance(5)
    assert store.apply([Ack(root_id=1, ack_val=1, outstanding=-1)], None)[0][0][0].value == "acked"
    [completion] = store.mailbox()
    assert (completion.message_id, completion.at_ms - completion.started_ms) == (message_id, 5)


def test_under_a_cap_inits_take_slots_and_ends_free_them(make: Callable[..., DrivenStore]) -> None:
    store = make(TopologyConfig(ackers=1, max_spout_pending=2), library.source(), 1)
    inits = [Init(root_id=root_id, spout_task="s", ack_val=1, outstanding=1) for root_id in (1, 2, 3)]
    end = Ack(root_id=1, ack_val=1, outstanding=-1)
    begun = store.apply(inits, None)[0]
    assert [state.value for state, _ in begun] == ["pending", "pending", "max_spout_pending"]
    ended = store.apply([end, inits[2]], None)[0]
    assert [state.value for state, _ in ended] == ["acked", "pending"]
    assert store.counts()[0] == {"s": 2}


def test_a_request_that_comes_twice_in_one_call_counts_once(make: Callable[..., DrivenStore]) -> None:
    store = make(CONFIGURATIONS["plain"], library.source(), 1)
    store.apply([Init(root_id=9, spout_task="s", ack_val=1)], None)
    init = Init(root_id=1, spout_task="s", ack_val=1, outstanding=1, message_timeout_ms=3_000)
    operations = codec.encode_operation(init, codec.Layout(shards=1, buckets=2), lambda _: 0)
    request = ("0", "2", "3", b"", operations)
    limits = ApplyLimits().packed
    assert store.ask("acker_apply_v2", store.settings, "", limits, *request, *request) == [b"", b"+p", b"=p"]
    assert store.counts()[0] == {"s": 2}
