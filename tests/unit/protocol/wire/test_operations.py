import json
from dataclasses import replace
from typing import Any

import pytest
from acker_protocol.errors import InvalidRequest
from acker_protocol.ids import fold, format_id
from acker_protocol.operations import Ack, Fail, Init, Operation, ResetTimeout
from acker_protocol.wire import fields
from acker_protocol.wire.operations import (
    VERBS,
    check,
    decode_batch,
    decode_json,
    decode_operation,
    encode_batch,
    encode_operation,
    names_of,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import ids, messages, names, traceparents

R, E1, E2, E3 = "00000000000000a1", "00000000000000b1", "00000000000000b2", "00000000000000b3"
CANCELLING = ["0000000000000001", "0000000000000002", "0000000000000003"]

READ: list[tuple[str, dict[str, Any], Operation]] = [
    (
        "init",
        {
            "root_id": R,
            "spout_task": "orders-1",
            "edges": [E1, E2],
            "message_id": "42",
            "message_timeout_ms": 60_000,
            "progress_timeout_ms": None,
        },
        Init(
            root_id=0xA1,
            spout_task="orders-1",
            ack_val=0x03,
            outstanding=2,
            message_id="42",
            message_timeout_ms=60_000,
        ),
    ),
    (
        "init",
        {"root_id": R, "spout_task": "s", "edges": [], "progress_timeout_ms": 0, "component": "reader"},
        Init(root_id=0xA1, spout_task="s", ack_val=0, outstanding=0, progress_timeout_ms=0, component="reader"),
    ),
    ("init", {"root_id": R, "spout_task": "s", "ack_val": E1}, Init(root_id=0xA1, spout_task="s", ack_val=0xB1)),
    (
        "init",
        {"root_id": R, "spout_task": "s", "ack_val": "0" * 16, "outstanding": 0, "edges": None},
        Init(root_id=0xA1, spout_task="s", ack_val=0, outstanding=0),
    ),
    (
        "init",
        {"root_id": R, "spout_task": "s", "ack_val": E1, "traceparent": f"00-{1:032x}-{2:016x}-01"},
        Init(root_id=0xA1, spout_task="s", ack_val=0xB1, traceparent=f"00-{1:032x}-{2:016x}-01"),
    ),
    (
        "ack",
        {"root_id": R, "edge_id": E1, "children": [E2, E3]},
        Ack(root_id=0xA1, ack_val=0xB0, outstanding=1, edge_id=0xB1),
    ),
    ("ack", {"root_id": R, "edge_id": E1}, Ack(root_id=0xA1, ack_val=0xB1, outstanding=-1, edge_id=0xB1)),
    (
        "ack",
        {"root_id": R, "edge_id": E1, "children": []},
        Ack(root_id=0xA1, ack_val=0xB1, outstanding=-1, edge_id=0xB1),
    ),
    ("ack", {"root_id": R, "ack_val": "0" * 16}, Ack(root_id=0xA1, ack_val=0)),
    ("ack", {"root_id": R, "ack_val": E1, "dropped": True}, Ack(root_id=0xA1, ack_val=0xB1, dropped=True)),
    ("ack", {"root_id": R, "ack_val": E1, "dropped": False}, Ack(root_id=0xA1, ack_val=0xB1)),
    ("ack", {"root_id": R, "ack_val": E1, "dropped": None}, Ack(root_id=0xA1, ack_val=0xB1)),
    (
        "ack",
        {"root_id": R, "ack_val": E3, "outstanding": -7, "edge_id": E1, "component": "split"},
        Ack(root_id=0xA1, ack_val=0xB3, outstanding=-7, edge_id=0xB1, component="split"),
    ),
    (
        "fail",
        {"root_id": R, "reason": "card service timed out", "component": "authorize"},
        Fail(root_id=0xA1, reason="card service timed out", component="authorize"),
    ),
    ("fail", {"root_id": R, "reason": None}, Fail(root_id=0xA1)),
    ("reset-timeout", {"root_id": R}, ResetTimeout(root_id=0xA1)),
    ("reset-timeout", {"root_id": R, "component": "split"}, ResetTimeout(root_id=0xA1, component="split")),
]
TRACEPARENT_RULE = (
    "traceparent must be a W3C traceparent of version 00: 00-, 32 hex digits of a trace id, -, 16 of a span id, -, "
    "2 of flags; in lower case, neither id zero"
)
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
INIT, ACK = {"root_id": R, "spout_task": "s"}, {"root_id": R}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    *((verb, {}, "root_id is missing") for verb in ("init", "ack", "fail", "reset-timeout")),
    ("fail", {"root_id": None}, "root_id is missing"),
    ("fail", {"root_id": 161}, "root_id must be a string"),
    ("fail", {"root_id": "0" * 16}, "root_id must not be zero"),
    ("fail", ACK | {"op": "fail"}, "'op' is not a field here"),
    ("fail", ACK | {"spout_task": None}, "'spout_task' is not a field here"),
    ("fail", ACK | {"reason": "a" * 1_025}, "reason must be at most 1024 characters"),
    ("reset-timeout", ACK | {"reason": "x"}, "'reason' is not a field here"),
    ("init", {"root_id": R, "edges": []}, "spout_task is missing"),
    ("init", INIT, "an init takes either edges or ack_val"),
    ("init", INIT | {"edges": [], "ack_val": E1}, "an init takes either edges or ack_val"),
    ("init", INIT | {"edges": [E1], "outstanding": 1}, "outstanding goes with ack_val; named edges are counted"),
    ("init", INIT | {"edges": [E1, E1]}, "edges must not name an edge twice"),
    (
        "init",
        INIT | {"edges": [], "message_timeout_ms": 0},
        "message_timeout_ms must be an integer from 100 to 604800000",
    ),
    ("init", INIT | {"edges": [], "edge_id": E1}, "'edge_id' is not a field here"),
    *(
        ("init", INIT | {"edges": [], "traceparent": wrong}, TRACEPARENT_RULE)
        for wrong in (
            *("", 7, "01-" + TRACEPARENT[3:], TRACEPARENT.upper(), TRACEPARENT + "-x", TRACEPARENT + "\n"),
            *(f"00-{0:032x}-{1:016x}-01", f"00-{1:032x}-{0:016x}-01"),
        )
    ),
    ("ack", ACK | {"edge_id": E1, "traceparent": TRACEPARENT}, "'traceparent' is not a field here"),
    ("ack", ACK, "an ack takes either edge_id or ack_val"),
    ("ack", ACK | {"edge_id": E1, "dropped": "yes"}, "dropped must be true or false"),
    ("fail", ACK | {"edge_id": E1, "dropped": True}, "'dropped' is not a field here"),
    ("ack", ACK | {"children": [E1]}, "an ack takes either edge_id or ack_val"),
    ("ack", ACK | {"ack_val": E1, "children": []}, "an ack takes either children or ack_val"),
    ("ack", ACK | {"edge_id": E1, "outstanding": 0}, "outstanding goes with ack_val; named edges are counted"),
    ("ack", ACK | {"edge_id": E1, "children": [E2, E1]}, "edge_id and children must not name an edge twice"),
    (
        "ack",
        ACK | {"edge_id": CANCELLING[0], "children": CANCELLING[1:]},
        "edge_id and children must not name edges that XOR to zero: edge ids have to be random",
    ),
    (
        "ack",
        ACK | {"ack_val": E1, "outstanding": 2**31},
        "outstanding must be an integer from -2147483648 to 2147483647",
    ),
]
NOT_JSON_OBJECTS: list[tuple[bytes, str]] = [
    (b"", "the body is not JSON: "),
    (b"{", "the body is not JSON: "),
    (b'{"a": \xff}', "the body is not JSON: "),
    (b"[" * 100_000, "the body is not JSON: "),
    (b'{"a": ' + b"9" * 5_000 + b"}", "the body is not JSON: "),
    (b"[]", "the body must be a JSON object"),
    (b"null", "the body must be a JSON object"),
    (b'"a"', "the body must be a JSON object"),
]


def decoded(document: dict[str, Any]) -> Operation:
    """Read an operation that says itself which it is."""
    return decode_operation(document["op"], {name: value for name, value in document.items() if name != "op"})


@pytest.mark.parametrize(("verb", "document", "message"), READ)
def test_an_operation_is_read_as_the_contract_says(verb: str, document: dict[str, Any], message: Operation) -> None:
    assert decode_operation(verb, document) == message


@pytest.mark.parametrize(("verb", "document", "why"), REFUSED)
def test_an_operation_of_another_form_is_invalid_and_the_fault_is_named(
    verb: str, document: dict[str, Any], why: str
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        decode_operation(verb, document)
    assert (refusal.value.detail, refusal.value.extra) == (why, {})


@given(messages, traceparents)
def test_the_traceparent_of_an_init_is_read_back(message: Operation, traceparent: str) -> None:
    if isinstance(message, Init):
        message = replace(message, traceparent=traceparent)
        assert decoded(json.loads(json.dumps(encode_operation(message)))) == message


@given(messages)
def test_what_is_written_is_read_back(message: Operation) -> None:
    assert decoded(json.loads(json.dumps(encode_operation(message)))) == message


@given(st.lists(messages, max_size=5))
def test_a_batch_that_is_written_is_read_back(batch: list[Operation]) -> None:
    assert decode_batch(decode_json(encode_batch(batch)), max_operations=5) == batch


@given(messages)
def test_an_operation_is_written_without_what_it_does_not_say(message: Operation) -> None:
    document = encode_operation(message)
    assert None not in document.values()
    assert list(document)[:2] == ["op", "root_id"]
    assert document["op"] in VERBS


edge_lists = st.lists(ids, max_size=6, unique=True)


@given(root_id=ids, spout_task=names, edges=edge_lists.filter(lambda edges: not edges or fold(edges)))
def test_an_init_that_names_its_edges_is_the_compact_one(root_id: int, spout_task: str, edges: list[int]) -> None:
    common = {"root_id": format_id(root_id), "spout_task": spout_task}
    named = decode_operation("init", common | {"edges": [format_id(edge) for edge in edges]})
    compact = decode_operation("init", common | {"ack_val": format_id(fold(edges)), "outstanding": len(edges)})
    assert named == compact


def sound(edges: list[int]) -> bool:
    return fold(edges) != 0 and (len(edges) == 1 or fold(edges[1:]) != 0)


@given(root_id=ids, edges=st.lists(ids, min_size=1, max_size=6, unique=True).filter(sound))
def test_an_ack_that_names_its_edges_is_the_compact_one(root_id: int, edges: list[int]) -> None:
    edge, *children = map(format_id, edges)
    common = {"root_id": format_id(root_id), "edge_id": edge}
    named = decode_operation("ack", common | {"children": children})
    compact = decode_operation("ack", common | {"ack_val": format_id(fold(edges)), "outstanding": len(children) - 1})
    assert named == compact


def test_a_batch_is_written_as_compact_utf_8() -> None:
    batch = [
        Init(root_id=0xA1, spout_task="s", ack_val=0, outstanding=0, message_id="刘备"),
        Ack(root_id=0xA1, ack_val=0xB3, outstanding=-1, edge_id=0xB1),
        Fail(root_id=0xA1, reason=""),
        ResetTimeout(root_id=0xA1, component="split"),
    ]
    assert encode_batch(iter(batch)).decode() == (
        '{"ops":['
        '{"op":"init","root_id":"00000000000000a1","ack_val":"0000000000000000","spout_task":"s",'
        '"outstanding":0,"message_id":"刘备"},'
        '{"op":"ack","root_id":"00000000000000a1","ack_val":"00000000000000b3","edge_id":"00000000000000b1",'
        '"outstanding":-1},'
        '{"op":"fail","root_id":"00000000000000a1","reason":""},'
        '{"op":"reset-timeout","root_id":"00000000000000a1","component":"split"}'
        "]}"
    )


@pytest.mark.parametrize(
    "document", [{}, {"ops": None}, {"ops": {}}, {"ops": "[]"}, {"ops": [], "results": []}, {"op": []}]
)
def test_a_batch_is_a_list_of_operations_and_nothing_else(document: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        decode_batch(document, max_operations=10)
    assert refusal.value.detail == 'the body must be {"ops": [...]} and nothing else'


def test_a_batch_may_be_empty_and_holds_no_more_than_it_may() -> None:
    op = {"op": "fail", "root_id": R}
    assert decode_batch({"ops": []}, max_operations=2) == []
    assert decode_batch({"ops": [op, op]}, max_operations=2) == [Fail(root_id=0xA1)] * 2
    with pytest.raises(InvalidRequest, match="at most 2 operations"):
        decode_batch({"ops": [op, op, op]}, max_operations=2)


@pytest.mark.parametrize(
    ("op", "why"),
    [
        ({"op": "fail"}, "root_id is missing"),
        ({"op": "fail", "root_id": R, "spout": "s"}, "'spout' is not a field here"),
        ({"root_id": R}, "op must be one of init, ack, fail, reset-timeout"),
        ({"op": None, "root_id": R}, "op must be one of init, ack, fail, reset-timeout"),
        ({"op": "emit", "root_id": R}, "op must be one of init, ack, fail, reset-timeout"),
        ({"op": ["ack"], "root_id": R}, "op must be one of init, ack, fail, reset-timeout"),
        ("fail", "an operation must be a JSON object"),
        (None, "an operation must be a JSON object"),
    ],
)
def test_the_first_malformed_operation_of_a_batch_is_named(op: Any, why: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        decode_batch({"ops": [{"op": "fail", "root_id": R}, op, {}]}, max_operations=10)
    assert (refusal.value.detail, refusal.value.extra) == (f"ops[1]: {why}", {"index": 1})


def test_a_batch_is_not_changed_by_reading_it() -> None:
    document = {"ops": [{"op": "init", "root_id": R, "spout_task": "s", "edges": [E1]}]}
    before = json.dumps(document)
    decode_batch(document, max_operations=1)
    assert json.dumps(document) == before


@pytest.mark.parametrize(("body", "why"), NOT_JSON_OBJECTS, ids=lambda value: str(value)[:20])
def test_a_body_that_is_no_json_object_is_invalid(body: bytes, why: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        decode_json(body)
    assert refusal.value.detail.startswith(why)


def test_a_json_object_is_read() -> None:
    assert decode_json('{"a": "刘备", "b": null}'.encode()) == {"a": "刘备", "b": None}


def test_fields_are_checked_and_those_that_are_null_count_as_left_out() -> None:
    checks = {"cursor": fields.text, "limit": fields.integer(fields.LIMIT)}
    assert check({"cursor": "abc", "limit": None}, checks) == {"cursor": "abc"}


@pytest.mark.parametrize("value", [None, "abc"])
def test_a_field_that_is_not_of_the_contract_is_invalid_even_if_null(value: str | None) -> None:
    with pytest.raises(InvalidRequest, match=r"^'cursr' is not a field here$"):
        check({"cursr": value}, {"cursor": fields.text})


NAMED: dict[str, Operation] = {
    "an init": Init(root_id=0xA1, spout_task="s", ack_val=3, outstanding=2, edges=(1, 2)),
    "a traced init": Init(root_id=0xA1, spout_task="s", ack_val=3, outstanding=2, edges=(1, 2), trace=True),
    "an ack": Ack(root_id=0xA1, ack_val=7, outstanding=1, edge_id=4, children=(1, 2)),
    "an ack without children": Ack(root_id=0xA1, ack_val=4, outstanding=-1, edge_id=4, children=()),
}


@pytest.mark.parametrize("operation", NAMED.values(), ids=NAMED.keys())
def test_an_operation_that_names_its_edges_is_written_with_their_names(operation: Init | Ack) -> None:
    document = encode_operation(operation)
    assert "ack_val" not in document
    assert "outstanding" not in document
    read = decode_operation(document.pop("op"), document)
    assert read == operation
    assert names_of(read) == names_of(operation)


def test_a_plain_fail_names_no_edge() -> None:
    assert names_of(Fail(root_id=1)) is None


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"edge_id": E1}, Fail(root_id=0xA1, ack_val=0xB1, outstanding=-1, edge_id=0xB1)),
        ({"edge_id": E1, "children": [E2]}, Fail(root_id=0xA1, ack_val=0xB1 ^ 0xB2, outstanding=0, edge_id=0xB1)),
        ({"ack_val": E1}, Fail(root_id=0xA1, ack_val=0xB1)),
        ({"ack_val": "0" * 16, "outstanding": 0}, Fail(root_id=0xA1, ack_val=0, outstanding=0)),
        ({"ack_val": E2, "edge_id": E1}, Fail(root_id=0xA1, ack_val=0xB2, edge_id=0xB1)),
    ],
)
def test_a_fail_may_carry_what_an_ack_carries(given: dict[str, Any], taken: Fail) -> None:
    assert decode_operation("fail", {"root_id": R} | given) == taken
    assert decode_batch({"ops": [encode_operation(taken)]}, max_operations=1) == [taken]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"ack_val": E1, "children": [E2]}, "a fail takes either children or ack_val"),
        ({"children": [E2]}, "a fail takes either edge_id or ack_val"),
        ({"children": []}, "a fail takes either edge_id or ack_val"),
        ({"outstanding": 1}, "a fail takes either edge_id or ack_val"),
        ({"edge_id": E1, "outstanding": 1}, "outstanding goes with ack_val"),
        ({"edge_id": E1, "children": [E1]}, "edge_id and children must not name an edge twice"),
    ],
)
def test_a_fail_that_ends_an_edge_in_no_form_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        decode_operation("fail", {"root_id": R} | given)


@pytest.mark.parametrize("value", ["all", "ALL_ENDED", "", 1, True, [], {}])
def test_an_end_that_is_unknown_is_refused_with_the_field(value: Any) -> None:
    with pytest.raises(InvalidRequest, match="end_on must be 'first_fail' or 'all_ended'"):
        decode_operation("init", {"root_id": R, "spout_task": "s", "ack_val": E1, "end_on": value})


@pytest.mark.parametrize(("given", "taken"), [({"trace": True}, True), ({"trace": False}, None), ({}, None)])
def test_an_init_is_traced_only_if_it_says_so(given: dict[str, Any], taken: bool | None) -> None:  # noqa: FBT001 - a parameter of the test
    init = decode_operation("init", {"root_id": R, "spout_task": "s", "ack_val": E1} | given)
    assert isinstance(init, Init)
    assert init.trace is taken
