"""Tests the column decoders against the reference codec: they are never told apart."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from acker_protocol.errors import InvalidRequest, ServiceError, TooLarge
from acker_protocol.operations import Fail, Init, Operation
from acker_protocol.wire.operations import decode_batch, decode_json, decode_operation, encode_batch
from acker_protocol.wire.packed import (
    CONTENT_TYPE,
    HEADER,
    MAX_BYTES,
    RECORD,
    decode_packed,
    encode_packed,
    unpacked_size,
)
from acker_service.http.parameters import JSON
from acker_service.operations import decoding
from hypothesis import given
from hypothesis import strategies as st

from tests.support.operations import Document, batches, documents, read, traced_documents
from tests.unit.protocol.wire.test_packed import HEADERS, RECORDS, RESET, TABLE, VECTORS, batch

MOST = 9
Outcome = list[Operation] | tuple[type[ServiceError], str, dict[str, Any]]


def outcome(kind: str, body: bytes, *, most: int = MOST, most_bytes: int = MAX_BYTES) -> Outcome:
    """What the service makes of a body: messages, or the problem it is refused with."""
    try:
        decoded = decoding.decode(kind, body, max_operations=most, max_bytes=most_bytes)
    except ServiceError as problem:
        return type(problem), problem.detail, problem.extra
    return read(decoded)  # columns of what is not valid fail here


def reference(kind: str, body: bytes, *, most: int = MOST, most_bytes: int = MAX_BYTES) -> Outcome:
    """What the reference codec makes of it."""
    decode = {JSON: decoding.decode_json_batch, CONTENT_TYPE: partial(decode_packed, max_bytes=most_bytes)}[kind]
    try:
        return list(decode(body, max_operations=most))
    except ServiceError as problem:
        return type(problem), problem.detail, problem.extra


def unchecked(body: bytes) -> Outcome:
    """What the reference codec makes of JSON whose shape nobody checked before."""
    try:
        return decode_batch(decode_json(body), max_operations=MOST)
    except ServiceError as problem:
        return type(problem), problem.detail, problem.extra


def is_left_to_the_reference(kind: str, body: bytes) -> bool:
    """Whether the column decoders leave a body to the reference codec."""
    try:
        decoding.decode_columns(kind, body, max_operations=MOST, max_bytes=MAX_BYTES)
    except (ValueError, RecursionError):
        return True
    return False


def written(ops: Sequence[Any]) -> bytes:
    return json.dumps({"ops": ops}).encode()


@given(batches)
def test_a_valid_batch_is_decoded_into_columns_from_either_form(messages):
    for kind, body in ((JSON, encode_batch(messages)), (CONTENT_TYPE, encode_packed(messages))):
        assert not is_left_to_the_reference(kind, body)
        assert outcome(kind, body) == messages


@given(st.lists(documents | traced_documents, max_size=8))
def test_operations_in_all_their_forms_are_decoded_into_columns(ops):
    assert not is_left_to_the_reference(JSON, written(ops))
    assert outcome(JSON, written(ops)) == decode_batch({"ops": ops}, max_operations=MOST)


ID, EDGE, OTHER, ZERO = "00000000000000a1", "00000000000000b2", "00000000000000c3", "0" * 16
TRACEPARENT = f"00-{OTHER}{EDGE}-{ID}-01"
INIT, ACK = {"op": "init", "root_id": ID, "spout_task": "a"}, {"op": "ack", "root_id": ID}
FAIL = {"op": "fail", "root_id": ID}
FORMS: dict[str, Document] = {
    "an init that names edges": INIT | {"edges": [EDGE, OTHER]},
    "an init without edges": INIT | {"edges": []},
    "a compact init": INIT | {"ack_val": EDGE, "outstanding": 2},
    "an init with a traceparent": INIT | {"edges": [], "traceparent": TRACEPARENT},
    "an ack that names its edge": ACK | {"edge_id": EDGE},
    "an ack that names children": ACK | {"edge_id": EDGE, "children": [ID, OTHER]},
    "a compact ack": ACK | {"ack_val": EDGE},
    "a compact ack of an edge": ACK | {"ack_val": EDGE, "edge_id": OTHER, "outstanding": -1},
    "an ack of a dropped tuple": ACK | {"edge_id": EDGE, "dropped": True},
    "an init that ends when all have ended": INIT | {"ack_val": EDGE, "outstanding": 2, "end_on": "all_ended"},
    "a fail of an edge with children": FAIL | {"edge_id": EDGE, "children": [ID, OTHER], "reason": "no"},
    "a compact fail of an edge": FAIL | {"ack_val": EDGE, "edge_id": OTHER, "outstanding": -1},
    "a fail": {"op": "fail", "root_id": ID, "reason": "no", "component": "b"},
    "a reset": {"op": "reset-timeout", "root_id": ID},
}
NAMES = ("op", "root_id", "spout_task", "edges", "children", "edge_id", "ack_val", "outstanding", "message_id",
         "reason", "message_timeout_ms", "progress_timeout_ms", "component", "trace", "traceparent",
         "end_on", "dropped", "other")  # fmt: skip
VALUES = (
    *(None, True, 0, -1, 1, 99, 100, 604_800_000, 604_800_001, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32 + 100),
    *(2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 10**30, 1.0, 100.0, 100.5, 1e300, {}, {"op": "ack"}),
    *(TRACEPARENT, TRACEPARENT.upper(), TRACEPARENT[:-1], f"01{TRACEPARENT[2:]}", f"00-{ZERO * 2}-{ID}-01"),
    *("", "a", "ack", "no name", "ü", ".a", "n" * 128, "n" * 129, "a\n", "x" * 1_025, "ü" * 512, "ü" * 513, "\ud800"),
    *("all_ended", "ALL_ENDED"),
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


REPLACED = (
    (b'"ack"', b'"init"'), (b'"init"', b'"ack"'), (b'"ack"', b'"fail"'), (b'"spout_task":"', b'"spout_task":"-'),
    (b'"orders-1"', b'""'), (b'"orders-1"', b"null"), (b'"orders-1"', b"7"), (b'"root_id":"', b'"root_id":" '),
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


@given(batches, st.data())
def test_json_with_other_text_in_it_is_judged_alike(messages, data):
    body = encode_batch(messages)
    old, new = data.draw(st.sampled_from(REPLACED))
    found = [at for at in range(len(body)) if body.startswith(old, at)]
    if found:
        at = data.draw(st.sampled_from(found))
        body = body[:at] + new + body[at + len(old) :]
    assert outcome(JSON, body) == reference(JSON, body)


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


def test_strings_that_end_within_a_character_are_judged_alike():
    body = encode_packed([Init(root_id=1, spout_task="s", ack_val=1, message_id="☃a")])
    at = body.index("☃".encode()) - 9  # the lengths of both strings stand before the first one
    for first, second in ((1, 4), (2, 3), (3, 2), (4, 1), (5, 0), (0, 5)):
        cut = body[:at] + first.to_bytes(4, "big") + second.to_bytes(4, "big") + body[at + 8 :]
        assert outcome(CONTENT_TYPE, cut) == reference(CONTENT_TYPE, cut)


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
    "compact ids that are long and short": written(
        [ACK | {"root_id": "1" * 15, "ack_val": ID}, ACK | {"root_id": "1" * 17, "ack_val": ID}]
    ),
    "ids that are long and short": written([ACK | {"edge_id": "1" * 18}, ACK | {"edge_id": "1" * 14 + "  "}]),
    "no operation": b'{"ops": []}',
    "too many": f'{{"ops": [{", ".join(["{" + OP + "}"] * 10)}]}}'.encode(),
    "too many, malformed": b'{"ops": [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]}',
    "nothing": b"",
    "nested deeply": b'{"ops": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "an operation that is nested deeply": b'{"ops": [' + b'{"a":' * 10_000 + b"1" + b"}" * 10_000 + b"]}",
}  # fmt: skip


@pytest.mark.parametrize(
    "title",
    ["malformed ops before others", "a field twice", "op twice, another", "a fraction that is none"],
)
def test_what_only_the_reference_codec_reads_becomes_columns_of_its_operations(title):
    assert is_left_to_the_reference(JSON, TEXTS[title])
    assert isinstance(outcome(JSON, TEXTS[title]), list)
    assert outcome(JSON, TEXTS[title]) == reference(JSON, TEXTS[title])


@given(st.lists(documents | traced_documents, min_size=1, max_size=8))
def test_what_only_the_reference_codec_reads_has_all_fields(ops):
    body = b'{"ops": [1], ' + written(ops)[1:]
    assert is_left_to_the_reference(JSON, body)
    odd, usual = (decoding.decode(JSON, each, max_operations=MOST) for each in (body, written(ops)))
    assert read(odd) == read(usual)
    assert odd.trace_fields == usual.trace_fields


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
def test_the_vectors_of_the_page_are_decoded_into_columns(_title, document, digits):
    assert not is_left_to_the_reference(CONTENT_TYPE, bytes.fromhex(digits))
    assert outcome(CONTENT_TYPE, bytes.fromhex(digits)) == outcome(JSON, document.encode())


def packed_fails(count: int, length: int) -> bytes:
    """Fails that share a reason."""
    return encode_packed([Fail(root_id=root, reason="r" * length) for root in range(1, count + 1)])


@given(batches, st.integers(0, 20_000))
def test_a_batch_that_unpacks_to_too_much_is_judged_alike(messages, most):
    body = encode_packed(messages)
    assert outcome(CONTENT_TYPE, body, most_bytes=most) == reference(CONTENT_TYPE, body, most_bytes=most)
    assert isinstance(outcome(CONTENT_TYPE, body, most_bytes=unpacked_size(body)), list)
    assert outcome(CONTENT_TYPE, body, most_bytes=unpacked_size(body) - 1)[0] is TooLarge


@given(batches, st.data())
def test_other_bytes_in_a_batch_that_unpacks_to_too_much_are_judged_alike(messages, data):
    body = bytearray(encode_packed(messages))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.sampled_from((0, 1, 2, 3, 4, 8, 100, 255)))
    most = data.draw(st.integers(0, 3_000))
    kinds = CONTENT_TYPE, bytes(body)
    assert outcome(*kinds, most_bytes=most) == reference(*kinds, most_bytes=most)


def test_a_string_that_nobody_points_to_counts_for_nothing():
    body = batch(RESET, strings=(b"x" * 1_000, b"y" * 1_000))
    assert isinstance(outcome(CONTENT_TYPE, body, most_bytes=HEADER.size + RECORD.size), list)


def test_a_pointer_beyond_the_table_is_pointed_at_and_counts_for_nothing():
    body = batch((3, 0, 0, 7, 0, 0, 0, 0, 9, 0, 0), strings=(b"x" * 1_000,))
    kind, detail, extra = outcome(CONTENT_TYPE, body, most_bytes=100)
    assert (kind, detail, extra) == (InvalidRequest, "ops[0]: there is no string 9, only 1", {"index": 0})


def test_the_size_is_refused_before_any_string_is_read():
    body = packed_fails(9, 1_000)[:-1] + b"\xff"
    kind, detail, _ = outcome(CONTENT_TYPE, body, most_bytes=9_000)
    assert (kind, detail) == (
        TooLarge,
        "the batch unpacks to 9484 bytes; at most 9000 are taken: send fewer operations at once",
    )


@pytest.fixture
def _always_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shape of small JSON is checked, too."""
    monkeypatch.setattr(decoding, "MAX_UNCHECKED_BYTES", -1)


@pytest.mark.usefixtures("_always_checked")
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize("name", NAMES)
def test_the_check_of_the_shape_refuses_nothing_that_is_valid(form, name):
    for value in VALUES:
        body = written([form, form | {name: value}])
        checked, plain = reference(JSON, body), unchecked(body)
        assert checked == plain if isinstance(plain, list) else checked[0] is plain[0], body


@pytest.mark.usefixtures("_always_checked")
@pytest.mark.parametrize("body", TEXTS.values(), ids=TEXTS.keys())
def test_the_check_of_the_shape_refuses_no_odd_json_that_is_valid(body):
    checked, plain = reference(JSON, body), unchecked(body)
    assert checked == plain if isinstance(plain, list) else issubclass(checked[0], ServiceError)


@pytest.mark.usefixtures("_always_checked")
@given(st.lists(documents, max_size=8))
def test_operations_in_all_their_forms_have_the_shape(ops):
    assert reference(JSON, written(ops)) == unchecked(written(ops))
    for op in ops:
        single = {name: value for name, value in op.items() if name != "op"}
        body = json.dumps(single).encode()
        assert decoding.decode_operation(op["op"], body) == decode_operation(op["op"], single)


def large(item: str, *, begin: str = "", end: str = "") -> bytes:
    """JSON that is too large to be built without a check."""
    body = f"{begin}{', '.join([item] * 30_000)}{end}".encode()
    assert len(body) > 65_536
    return body


LARGE = {
    "a list": (large("[]", begin="[", end="]"), None),
    "operations and more": (large("[]", begin='{"ops": [], "x": [', end="]}"), None),
    "an operation of lists": (large("[]", begin=f'{{"ops": [{{{OP}}}, {{{OP}, "children": [', end="]}]}"), 1),
    "an operation with objects": (large("{}", begin=f'{{"ops": [{{{OP}, "edges": [', end="]}]}"), 0),
    "an operation of many fields": (large('"x": 1', begin=f'{{"ops": [{{{OP}}}, {{', end="}]}"), 1),
    "an operation that is a list": (large("[]", begin=f'{{"ops": [{{{OP}}}, {{{OP}}}, [', end="]]}"), 2),
    "an operation that is nested deeply": (b'{"ops": [' + b'{"op":' * 100_000 + b"}" * 100_000 + b"]}", None),
    "an operation with a long name for a field": (f'{{"ops": [{{"{"x" * 100_000}": 1}}]}}'.encode(), 0),
    "an operation with a long number": (f'{{"ops": [{{{OP}, "outstanding": {"1" * 100_000}}}]}}'.encode(), 0),
    "a number that is cut": (f'{{"ops": [{{{OP}, "reason": "{"x" * 100_000}", "outstanding": '.encode(), None),
}


@pytest.mark.parametrize(("body", "index"), LARGE.values(), ids=LARGE.keys())
def test_a_large_body_without_the_shape_of_a_batch_is_refused_before_it_is_built(monkeypatch, body, index):
    monkeypatch.setattr(decoding.json_codec, "decode_json", pytest.fail)
    kind, detail, extra = outcome(JSON, body)
    assert (kind, extra) == (InvalidRequest, {} if index is None else {"index": index})
    assert detail.startswith("the body must be" if index is None else f"ops[{index}]: an operation must be")
    assert len(detail) < 300


@pytest.mark.parametrize("item", ["[]", "{}", "1", "null", '"x"', "[[]]", f"{{{OP}}}"])
def test_a_large_body_of_too_many_operations_is_refused_before_it_is_built(monkeypatch, item):
    monkeypatch.setattr(decoding.json_codec, "decode_json", pytest.fail)
    kind, detail, _ = outcome(JSON, large(item, begin='{"ops": [', end="]}"))
    assert (kind, detail) == (TooLarge, "the batch has 30000 operations; at most 9 are taken")


SINGLE = {
    "a list": large("[]", begin="[", end="]"),
    "lists in a list": large("[]", begin='{"children": [', end="]}"),
    "objects in a list": large("{}", begin='{"children": [', end="]}"),
    "another field": large("[]", begin='{"x": [', end="]}"),
    "fields that repeat": large('"children": [[]]', begin="{", end="}"),
    "what is nested deeply": b'{"root_id":' * 100_000,
    "what is no JSON": b"x" * 100_000,
    "no UTF-8": b"\xff" * 100_000,
}


@pytest.mark.parametrize("body", SINGLE.values(), ids=SINGLE.keys())
def test_a_large_body_without_the_shape_of_an_operation_is_refused_before_it_is_built(monkeypatch, body):
    monkeypatch.setattr(decoding.json_codec, "decode_json", pytest.fail)
    with pytest.raises(InvalidRequest, match=r"^an operation must be a JSON object of its fields: ") as raised:
        decoding.decode_operation("ack", body)
    assert len(raised.value.detail) < 300


def test_a_large_operation_is_decoded():
    children = [f"{2**40 + number:016x}" for number in range(10_001)]
    ack = {"root_id": ID, "edge_id": EDGE, "children": children}
    decoded = decoding.decode_operation("ack", json.dumps(ack).encode())
    assert decoded == decode_operation("ack", ack)
    assert outcome(JSON, written([ack | {"op": "ack", "component": None}])) == [decoded]
    assert reference(JSON, written([ack | {"op": "ack", "component": None}])) == [decoded]
