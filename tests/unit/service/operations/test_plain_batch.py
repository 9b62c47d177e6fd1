"""A batch of plain operations is the same batch in every form: the same parts, bytes, counts and refusals."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from acker_protocol.operations import Ack, Fail, Init, Operation, ResetTimeout
from acker_protocol.wire.operations import encode_batch
from acker_protocol.wire.packed import CONTENT_TYPE, HEADER, RECORD, encode_packed, unpacked_size
from acker_service.http.parameters import JSON
from acker_service.operations import decoding
from acker_service.operations.batch import ListBatch, OperationBatch
from acker_service.operations.column_batch import ColumnBatch
from acker_service.operations.plain_batch import MAX_NAMES, MAX_TEXT_BYTES, PlainBatch
from acker_service.operations.request import ApplyRequest
from acker_service.redis.stamp import Stamp
from acker_service.topologies.config import TopologyConfig
from acker_service.topologies.topology import Topology
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.service.operations.test_decoding import outcome, reference

MOST = 5_000
CODES = "paed"
counts = st.none() | st.sampled_from((-(2**31), -1, 0, 1, 2**31 - 1))
spout_tasks = st.sampled_from(("orders", "a", "n" * 128, "0.A_z-"))
ack_vals = st.integers(0, 2**64 - 1) | st.sampled_from((0, 1, 2**64 - 1))
roots = st.integers(1, 2**64 - 1) | st.integers(1, 30)
components = st.none() | st.sampled_from(("orders", "split", "c" * 128, "0"))
message_ids = (
    st.none() | st.sampled_from(("", "42", "orders", "ünï ☃", "m" * MAX_TEXT_BYTES, "\0")) | st.text(max_size=9)
)
edge_ids = st.none() | st.integers(1, 2**64 - 1)
bare = st.one_of(
    st.builds(Init, root_id=roots, spout_task=spout_tasks, ack_val=ack_vals, outstanding=counts),
    st.builds(Ack, root_id=roots, ack_val=ack_vals, outstanding=counts),
)
plain = st.one_of(
    st.builds(
        Init,
        root_id=roots,
        spout_task=spout_tasks,
        ack_val=ack_vals,
        outstanding=counts,
        message_id=message_ids,
        component=components,
    ),
    st.builds(Ack, root_id=roots, ack_val=ack_vals, outstanding=counts, edge_id=edge_ids, component=components),
)
plain_batches = st.lists(bare, min_size=1, max_size=30) | st.lists(plain, min_size=1, max_size=30)
shard_counts = st.sampled_from((1, 2, 3, 4, 7, 128))


@contextmanager
def without_plain() -> Iterator[None]:
    PlainBatch.enabled = False
    try:
        yield
    finally:
        PlainBatch.enabled = True


@pytest.fixture(autouse=True)
def with_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlainBatch, "enabled", True)


def bodies(messages: list[Operation]) -> dict[str, bytes]:
    return {JSON: encode_batch(messages), CONTENT_TYPE: encode_packed(messages)}


def decode(kind: str, body: bytes, *, most: int = MOST) -> OperationBatch:
    return decoding.decode(kind, body, max_operations=most)


def forms(messages: list[Operation]) -> Iterator[tuple[OperationBatch, OperationBatch]]:
    """Give a plain batch, and the same one as any other batch, from either form of the body."""
    for kind, body in bodies(messages).items():
        batch = decode(kind, body)
        assert type(batch) is PlainBatch
        with without_plain():
            general = decode(kind, body)
        assert type(general) is ColumnBatch
        yield batch, general


def requests(batch: OperationBatch, shards: int, key: str | None, *, capped: bool, trace: float = 0) -> Any:
    """Give all that a batch says: its parts, the bytes for each shard, how its operations are counted."""
    config = TopologyConfig(ackers=shards, buckets=1_009, trace=trace)
    topology = Topology(name="t", stamp=Stamp("0" * 26), config=config, window_ms=60_000)
    parts = batch.split(topology.layout, capped=capped)
    indexes = {name: 2**32 - 5 - place for place, name in enumerate(sorted(batch.spout_tasks))}
    request = ApplyRequest(endpoint="batch", operations=batch, key=key)
    encoded = request.shard_requests(parts, topology, indexes)
    assert list(encoded) == [part.shard for part in parts]
    tallies = [
        sorted(batch.count_by_kind_and_state(part, (CODES * len(batch))[: len(part.apply_order)])) for part in parts
    ]
    orders = [(part.shard, list(part.request_order), list(part.apply_order)) for part in parts]
    named = None if batch.contains(Ack) else [batch.spout_tasks_of([index]) for index in (0, len(batch) - 1)]
    questions = (batch.spout_tasks, batch.contains(Init), batch.contains(Ack), batch.first_timeout_over(1), len(batch))
    return orders, encoded, tallies, questions, named


@given(plain_batches, shard_counts, st.booleans(), st.sampled_from((None, "k")), st.sampled_from((0, 0, 0.5)))
def test_a_plain_batch_is_what_the_same_batch_is_in_any_other_form(messages, shards, capped, key, trace):
    of_list = requests(ListBatch(messages), shards, key, capped=capped, trace=trace)
    for batch, general in forms(messages):
        for form in (batch, general):
            assert requests(form, shards, key, capped=capped, trace=trace) == of_list


@pytest.mark.parametrize("optional", ["nothing", "always", "sometimes"])
@pytest.mark.parametrize("kinds", ["inits", "acks", "both"])
@given(st.integers(1, MOST), shard_counts, st.integers(0, 2**32))
@settings(max_examples=6, deadline=None)
def test_large_plain_batches_are_what_they_are_in_any_other_form(kinds, optional, count, shards, seed):
    rng = random.Random(seed)
    messages = [drawn(rng, root, kinds, optional) for root in rng.sample(range(1, 2**48), count)]
    for batch, general in forms(messages):
        for key in (None, "k"):
            assert requests(batch, shards, key, capped=False) == requests(general, shards, key, capped=False)


def drawn(rng: random.Random, root_id: int, kinds: str, optional: str) -> Operation:
    def given() -> bool:
        return optional == "always" or (optional == "sometimes" and rng.random() < 0.5)

    ack_val, outstanding = rng.getrandbits(64), rng.choice((None, -1, 2, 0))
    component = rng.choice(("split", "count")) if given() else None
    if kinds == "inits" or (kinds == "both" and rng.random() < 0.3):
        return Init(
            root_id=root_id,
            spout_task=rng.choice(("a", "b")),
            ack_val=ack_val,
            outstanding=outstanding,
            message_id=f"order {rng.randrange(10_000)}" if given() else None,
            component=component,
        )
    edge_id = rng.randrange(1, 2**64) if given() else None
    return Ack(root_id=root_id, ack_val=ack_val, outstanding=outstanding, edge_id=edge_id, component=component)


INIT, ACK = Init(root_id=1, spout_task="s", ack_val=2), Ack(root_id=2, ack_val=2)
NOT_PLAIN: dict[str, list[Operation]] = {
    "empty": [],
    "a fail": [ACK, Fail(root_id=3)],
    "a reset": [ACK, ResetTimeout(root_id=3)],
    "a long message id": [INIT, Init(root_id=3, spout_task="s", ack_val=1, message_id="m" * (MAX_TEXT_BYTES + 1))],
    "a long message id in UTF-8": [INIT, Init(root_id=3, spout_task="s", ack_val=1, message_id="☃" * MAX_TEXT_BYTES)],
    "a timeout": [INIT, Init(root_id=3, spout_task="s", ack_val=1, message_timeout_ms=100)],
    "a progress timeout": [INIT, Init(root_id=3, spout_task="s", ack_val=1, progress_timeout_ms=0)],
    "many spout tasks": [Init(root_id=n + 1, spout_task=f"s{n}", ack_val=1) for n in range(MAX_NAMES + 1)],
    "many components": [Ack(root_id=n + 1, component=f"c{n}", ack_val=1) for n in range(MAX_NAMES + 1)],
}


@pytest.mark.parametrize("messages", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_what_is_not_plain_is_decoded_as_any_other_batch(messages):
    for kind, body in bodies(messages).items():
        assert type(decode(kind, body)) is ColumnBatch
        assert outcome(kind, body, most=MOST) == reference(kind, body, most=MOST)


LAWFUL: dict[str, list[Operation]] = {
    "a root twice": [ACK, INIT, ACK],
    "an edge id": [ACK, Ack(root_id=3, ack_val=1, edge_id=4)],
    "a component": [ACK, Ack(root_id=3, ack_val=1, component="c")],
    "a component of an init": [INIT, Init(root_id=3, spout_task="s", ack_val=1, component="s")],
    "a message id": [INIT, Init(root_id=3, spout_task="s", ack_val=1, message_id="m")],
    "many message ids": [
        Init(root_id=n + 1, spout_task="s", ack_val=1, message_id=f"{n}") for n in range(2 * MAX_NAMES)
    ],
}


@pytest.mark.parametrize("messages", LAWFUL.values(), ids=LAWFUL)
def test_what_real_traffic_has_is_plain(messages):
    for batch, general in forms(messages):
        assert requests(batch, 4, "k", capped=False) == requests(general, 4, "k", capped=False)


@given(plain_batches, st.data())
def test_a_packed_body_with_other_bytes_is_what_the_reference_makes_of_it(messages, data):
    body = bytearray(encode_packed(messages))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body) - 1) | st.integers(HEADER.size, min(len(body), 90) - 1))
        body[at] = data.draw(st.integers(0, 255) | st.sampled_from((0, 1, 2, 3)))
    assert outcome(CONTENT_TYPE, bytes(body), most=40) == reference(CONTENT_TYPE, bytes(body), most=40)


REPLACED = (
    (b'"ack"', b'"init"'), (b'"init"', b'"ack"'), (b'"ack"', b'"fail"'), (b'"spout_task":"', b'"spout_task":"-'),
    (b'"orders"', b'""'), (b'"orders"', b"null"), (b'"orders"', b"7"), (b'"root_id":"', b'"root_id":" '),
    (b'"root_id":"0', b'"root_id":"A'), (b'"root_id":"0', b'"root_id":"'), (b'"ack_val"', b'"edge_id"'),
    (b'"edge_id":"', b'"edge_id":"0000000000000000","x":"'), (b'"edge_id"', b'"message_id"'),
    (b'"message_id"', b'"edge_id"'), (b'"component":"', b'"component":"-'), (b'"component"', b'"reason"'),
    (b'"message_id":"', b'"message_id":"\\ud800'), (b'"message_id":"', b'"message_id":"\xff'),
    (b'"component":"', b'"component":null,"x":"'), (b'"edge_id":"', b'"children":[],"edge_id":"'),
    (b'"outstanding":', b'"outstanding":1'), (b'"outstanding":', b'"outstanding":99999999999'),
    (b'"outstanding":1', b'"outstanding":1.0'), (b'"outstanding":1', b'"outstanding":null'),
    (b'"outstanding":1', b'"outstanding":true'), (b"{", b'{"op":"ack",'), (b"{", b'{"x":1,'), (b"}", b""),
    (b"]", b"],"), (b'"ops"', b'"OPS"'), (b"0", b"g"),
)  # fmt: skip


@given(plain_batches, st.data())
def test_a_json_body_with_other_text_is_what_the_reference_makes_of_it(messages, data):
    body = encode_batch(messages)
    old, new = data.draw(st.sampled_from(REPLACED))
    found = [at for at in range(len(body)) if body.startswith(old, at)]
    if found:
        at = data.draw(st.sampled_from(found))
        body = body[:at] + new + body[at + len(old) :]
    assert outcome(JSON, body, most=40) == reference(JSON, body, most=40)


def test_an_id_that_is_too_long_makes_up_for_none_that_is_too_short():
    ack = b'{"op":"ack","root_id":"%b","ack_val":"%b"}'
    body = b'{"ops":[%b,%b]}' % (ack % (b"1" * 15, b"2" * 16), ack % (b"3" * 17, b"4" * 16))
    assert outcome(JSON, body, most=40) == reference(JSON, body, most=40)
    assert isinstance(outcome(JSON, body, most=40), tuple)


def test_strings_that_end_within_a_character_are_refused_as_ever():
    body = encode_packed([Init(root_id=1, spout_task="s", ack_val=1, message_id="☃a")])
    at = body.index("☃".encode()) - 8  # the lengths of both strings
    for first, second in ((1, 4), (2, 3), (3, 2), (4, 1), (5, 0), (0, 5)):
        cut = body[:at] + first.to_bytes(4, "big") + second.to_bytes(4, "big") + body[at + 8 :]
        assert outcome(CONTENT_TYPE, cut, most=40) == reference(CONTENT_TYPE, cut, most=40)


def test_a_plain_batch_that_unpacks_to_more_than_it_may_is_refused_as_ever():
    body = encode_packed([Ack(root_id=root, ack_val=1, component="c" * 100) for root in range(1, 9)])
    unpacked = unpacked_size(body)
    for most_bytes in (unpacked - 1, unpacked):
        expected = reference(CONTENT_TYPE, body, most=40, most_bytes=most_bytes)
        assert outcome(CONTENT_TYPE, body, most=40, most_bytes=most_bytes) == expected
    assert isinstance(outcome(CONTENT_TYPE, body, most=40, most_bytes=unpacked - 1), tuple)


def test_more_operations_than_may_be_are_refused_as_ever():
    messages: list[Operation] = [Ack(root_id=root, ack_val=1) for root in range(1, 9)]
    for kind, body in bodies(messages).items():
        assert outcome(kind, body, most=7) == reference(kind, body, most=7)
        assert isinstance(outcome(kind, body, most=7), tuple)


def test_a_plain_batch_that_is_larger_than_it_may_be_is_refused_as_ever():
    body = encode_packed([Ack(root_id=root, ack_val=1) for root in range(1, 9)])
    assert len(body) == HEADER.size + 8 * RECORD.size
    for most_bytes in (len(body) - 1, len(body)):
        expected = reference(CONTENT_TYPE, body, most=40, most_bytes=most_bytes)
        assert outcome(CONTENT_TYPE, body, most=40, most_bytes=most_bytes) == expected
