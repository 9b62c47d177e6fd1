"""Tests the fast decoders against the reference codec: they are never told apart."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from acker_protocol.errors import ServiceError
from acker_protocol.operations import Operation
from acker_protocol.wire.operations import decode_batch, encode_batch
from acker_protocol.wire.packed import CONTENT_TYPE, decode_packed, encode_packed
from acker_service.http.parameters import JSON
from acker_service.operations import decoding
from acker_service.operations.column_batch import ColumnBatch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.operations import Document, batches, documents, read
from tests.unit.protocol.wire.test_packed import HEADERS, RECORDS, RESET, TABLE, VECTORS, batch

MOST = 9
Outcome = list[Operation] | tuple[type[ServiceError], str, dict[str, Any]]


def outcome(kind: str, body: bytes, *, most: int = MOST) -> Outcome:
    """What the service makes of a body: messages, or the problem it is refused with."""
    try:
        decoded = decoding.decode(kind, body, max_operations=most)
    except ServiceError as problem:
        return type(problem), problem.detail, problem.extra
    return read(decoded)  # columns of what is not lawful fail here


def reference(kind: str, body: bytes, *, most: int = MOST) -> Outcome:
    """What the reference codec makes of it."""
    decode = {JSON: decoding.decode_json_batch, CONTENT_TYPE: decode_packed}[kind]
    try:
        return list(decode(body, max_operations=most))
    except ServiceError as problem:
        return type(problem), problem.detail, problem.extra


def is_fast(kind: str, body: bytes) -> bool:
    return isinstance(decoding.decode(kind, body, max_operations=MOST), ColumnBatch)


def written(ops: Sequence[Any]) -> bytes:
    return json.dumps({"ops": ops}).encode()


@given(batches)
def test_a_lawful_batch_is_decoded_fast_from_either_form(messages):
    for kind, body in ((JSON, encode_batch(messages)), (CONTENT_TYPE, encode_packed(messages))):
        assert is_fast(kind, body)
        assert outcome(kind, body) == messages


@given(st.lists(documents, max_size=8))
def test_operations_in_all_their_forms_are_decoded_fast(ops):
    assert is_fast(JSON, written(ops))
    assert outcome(JSON, written(ops)) == decode_batch({"ops": ops}, max_operations=MOST)


ID, EDGE, OTHER, ZERO = "00000000000000a1", "00000000000000b2", "00000000000000c3", "0" * 16
INIT, ACK = {"op": "init", "root_id": ID, "spout_task": "a"}, {"op": "ack", "root_id": ID}
FORMS: dict[str, Document] = {
    "an init that names edges": INIT | {"edges": [EDGE, OTHER]},
    "an init without edges": INIT | {"edges": []},
    "a compact init": INIT | {"ack_val": EDGE, "outstanding": 2},
    "an ack that names its edge": ACK | {"edge_id": EDGE},
    "an ack that names children": ACK | {"edge_id": EDGE, "children": [ID, OTHER]},
    "a compact ack": ACK | {"ack_val": EDGE},
    "a compact ack of an edge": ACK | {"ack_val": EDGE, "edge_id": OTHER, "outstanding": -1},
    "a fail": {"op": "fail", "root_id": ID, "reason": "no", "component": "b"},
    "a reset": {"op": "reset-timeout", "root_id": ID},
}
NAMES = ("op", "root_id", "spout_task", "edges", "children", "edge_id", "ack_val", "outstanding", "message_id",
         "reason", "message_timeout_ms", "progress_timeout_ms", "component", "other")  # fmt: skip
VALUES = (
    *(None, True, 0, -1, 1, 99, 100, 604_800_000, 604_800_001, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32 + 100),
    *(2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 10**30, 1.0, 100.0, 100.5, 1e300, {}, {"op": "ack"}),
    *("", "a", "ack", "no name", "ü", ".a", "n" * 128, "n" * 129, "a\n", "x" * 1_025, "ü" * 512, "ü" * 513, "\ud800"),
    *(ID, EDGE, ID.upper(), ZERO, "a" * 17, " " * 16, "000000000000000 ", "0000 000000000a1", "\uff10" * 16),
    *([], [ID], [EDGE, OTHER], [ID, ID], [ID, ID, OTHER], [ID, ZERO], [ZERO], [None], [1], [ID, "0" * 15], ["A" * 16]),
    *(["0000000000000001", "0000000000000002", "0000000000000003"], ["00000000000000a0", "0000000000000012"]),
)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize("name", NAMES)
def test_an_operation_with_another_value_is_judged_alike(form, name):
    for value in VALUES:
        for body in (written([form, form | {name: value}]), written([form | {name: value}])):
            assert outcome(JSON, body) == reference(JSON, body), body


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_an_operation_without_a_field_is_judged_alike(form):
    for name in form:
        body = written([form, {other: value for other, value in form.items() if other != name}])
        assert outcome(JSON, body) == reference(JSON, body), body


@given(st.lists(documents, min_size=1, max_size=4), st.data())
def test_operations_with_other_values_among_them_are_judged_alike(ops, data):
    for changed in ops:
        changed[data.draw(st.sampled_from(NAMES))] = data.draw(st.sampled_from(VALUES))
    assert outcome(JSON, written(ops)) == reference(JSON, written(ops))


@given(batches, st.data())
def test_json_with_other_bytes_in_it_is_judged_alike(messages, data):
    body = bytearray(encode_batch(messages))
    at = data.draw(st.integers(0, len(body)))
    cut = data.draw(st.integers(0, 2))
    body[at : at + cut] = data.draw(
        st.sampled_from((b"", b"0", b"-", b".5", b",", b"}", b'"', b"\\", b"\xff", b"\0", b" "))
    )
    assert outcome(JSON, bytes(body)) == reference(JSON, bytes(body))


@given(batches, st.data())
def test_a_packed_batch_with_other_bytes_in_it_is_judged_alike(messages, data):
    body = bytearray(encode_packed(messages))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(
            st.sampled_from((0, 1, 2, 3, 4, 5, 8, 100, 128, 255))
        )
    end = data.draw(st.just(len(body)) | st.integers(0, len(body)))
    for changed in (body[:end], body + b"\0" * (end % 3)):
        assert outcome(CONTENT_TYPE, bytes(changed)) == reference(CONTENT_TYPE, bytes(changed))


OP = f'"op": "reset-timeout", "root_id": "{ID}"'
ARABIC = "\u0660" * 16
A_INIT = f'"op": "init", "root_id": "{ID}", "spout_task": "a", "ack_val": "{ID}"'
TEXTS = {
    "a byte order mark": b"\xef\xbb\xbf" + f'{{"ops": [{{{OP}}}]}}'.encode(),
    "UTF-16": f'{{"ops": [{{{OP}}}]}}'.encode("utf-16"),
    "escaped keys": f'{{"\\u006fps": [{{{OP}}}]}}'.encode(),
    "ops twice": f'{{"ops": [{{{OP}}}], "ops": []}}'.encode(),
    "malformed ops before others": b'{"ops": [1], "ops": []}',
    "a field twice": f'{{"ops": [{{"root_id": "x", {OP}}}]}}'.encode(),
    "op twice, another": f'{{"ops": [{{"op": "fail", {OP}}}]}}'.encode(),
    "op twice, the same": f'{{"ops": [{{"op": "reset-timeout", {OP}}}]}}'.encode(),
    "op last": f'{{"ops": [{{"root_id": "{ID}", "op": "fail"}}]}}'.encode(),
    "NaN": f'{{"ops": [{{{A_INIT}, "outstanding": NaN}}]}}'.encode(),
    "minus zero": f'{{"ops": [{{{A_INIT}, "outstanding": -0}}]}}'.encode(),
    "a fraction that is none": f'{{"ops": [{{{A_INIT}, "outstanding": 1.0}}]}}'.encode(),
    "a fraction in words": f'{{"ops": [{{{A_INIT}, "outstanding": 1e0}}]}}'.encode(),
    "a number that begins with a zero": f'{{"ops": [{{{A_INIT}, "outstanding": 01}}]}}'.encode(),
    "a lone surrogate": f'{{"ops": [{{{A_INIT}, "message_id": "\\ud800"}}]}}'.encode(),
    "a pair of surrogates": f'{{"ops": [{{{A_INIT}, "message_id": "\\ud83d\\ude00"}}]}}'.encode(),
    "a line feed in a string": f'{{"ops": [{{{A_INIT}, "message_id": "\n"}}]}}'.encode(),
    "a digit of another script": f'{{"ops": [{{"op": "fail", "root_id": "{ARABIC}"}}]}}'.encode(),
    "more than ops": b'{"ops": [], "more": []}',
    "ids that are long and short": written([ACK | {"edge_id": "1" * 18}, ACK | {"edge_id": "1" * 14 + "  "}]),
    "no operation": b'{"ops": []}',
    "too many": f'{{"ops": [{", ".join(["{" + OP + "}"] * 10)}]}}'.encode(),
    "too many, malformed": b'{"ops": [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]}',
    "nothing": b"",
    "nested deeply": b'{"ops": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}  # fmt: skip


@pytest.mark.parametrize("body", TEXTS.values(), ids=TEXTS.keys())
def test_json_of_every_odd_kind_is_judged_alike(body):
    assert outcome(JSON, body) == reference(JSON, body)


@pytest.mark.parametrize("body", [body for body, _ in HEADERS.values()], ids=HEADERS.keys())
def test_a_packed_body_of_another_layout_is_judged_alike(body):
    assert outcome(CONTENT_TYPE, body) == reference(CONTENT_TYPE, body)


@pytest.mark.parametrize("record", [record for record, _ in RECORDS.values()], ids=RECORDS.keys())
def test_a_malformed_record_is_judged_alike(record):
    body = batch(RESET, record, strings=TABLE)
    assert outcome(CONTENT_TYPE, body) == reference(CONTENT_TYPE, body)
    assert not isinstance(outcome(CONTENT_TYPE, body), list)


@pytest.mark.parametrize("most", [0, 1, 2])
def test_a_batch_that_is_too_large_is_judged_alike(most):
    for kind, body in (
        (JSON, written([{"op": "fail", "root_id": ID}] * 2)),
        (CONTENT_TYPE, bytes.fromhex(VECTORS[0][2])),
    ):
        assert outcome(kind, body, most=most) == reference(kind, body, most=most)


@pytest.mark.parametrize(("_title", "document", "digits"), VECTORS, ids=[title for title, *_ in VECTORS])
def test_the_vectors_of_the_page_are_decoded_fast(_title, document, digits):
    assert is_fast(CONTENT_TYPE, bytes.fromhex(digits))
    assert outcome(CONTENT_TYPE, bytes.fromhex(digits)) == outcome(JSON, document.encode())
