"""Lists bad requests, each with the problem that it has to be answered with."""

import json
from dataclasses import dataclass, field
from typing import Any

V1 = "/v1/topologies"
DEFAULT = f"{V1}/default"
SPOUT = f"{DEFAULT}/spouts/orders"
JSON = {"Content-Type": "application/json"}

ROOT, EDGE, OTHER = "00000000000000c1", "00000000000000e1", "00000000000000e2"
INIT = {"root_id": ROOT, "spout_task": "orders", "edges": [EDGE]}
COMPACT = {"root_id": ROOT, "spout_task": "orders", "ack_val": EDGE}
ACK = {"root_id": ROOT, "edge_id": EDGE}
FAIL = {"root_id": ROOT}
DAYS_8 = 8 * 86_400_000
LONG_NAME = "n" * 129
BAD_NAMES = {
    "empty": "",
    "too long": LONG_NAME,
    "with a space": "a b",
    "beginning with a dot": ".a",
    "of Unicode": "ünic",
    "with a line feed": "a\n",
    "with a slash": "a/b",
    "a number": 7,
    "a list": ["a"],
}
BAD_IDS = {"zero": "0" * 16, "uppercase": "00000000000000C1", "short": "c1", "long": "0" * 15 + "c1", "a number": 193,
           "prefixed": "0x000000000000c1", "of other digits": "\u0660" * 16, "with a line feed": ROOT + "\n",
           "a boolean": True, "with a space": " 00000000000000c"}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Bad:
    """A request, the code it is refused with, what the detail says, and the index that is pointed at."""

    path: str
    method: str = "POST"
    request: dict[str, Any] = field(default_factory=dict)
    code: str = "invalid"
    says: str = ""
    index: int | None = None


def raw(content: bytes, *, code: str = "invalid", kind: str | None = "application/json", **more: Any) -> Bad:
    """A body as bytes, with a content type or none."""
    headers = {} if kind is None else {"Content-Type": kind}
    return Bad(**{"path": f"{DEFAULT}/batch", "request": {"content": content, "headers": headers}, "code": code} | more)


def init(**fields: Any) -> Bad:
    """An init with a field that is bad."""
    return _operation("init", INIT, fields)


def compact(**fields: Any) -> Bad:
    """A compact init with a field that is bad."""
    return _operation("init", COMPACT, fields)


def ack(**fields: Any) -> Bad:
    """An ack with a field that is bad."""
    return _operation("ack", ACK, fields)


def fail(**fields: Any) -> Bad:
    """A failure with a field that is bad."""
    return _operation("fail", FAIL, fields)


def topology(**fields: Any) -> Bad:
    """A configuration with a field that is bad."""
    return Bad(path=DEFAULT, method="PUT", request=_json(fields), says=next(iter(fields)))


def batch(*ops: Any, index: int | None, says: str = "") -> Bad:
    """A batch whose operation at ``index`` is bad."""
    return Bad(path=f"{DEFAULT}/batch", request=_json({"ops": ops}), index=index, says=says)


def _operation(verb: str, good: dict[str, Any], fields: dict[str, Any]) -> Bad:
    return Bad(path=f"{DEFAULT}/{verb}", request=_json(good | fields), says=next(iter(fields)))


def _json(document: Any) -> dict[str, Any]:
    return {"content": json.dumps(document), "headers": JSON}


BODIES = {
    "no body": raw(b""),
    "half a document": raw(b'{"ops": ['),
    "two documents": raw(b'{"ops": []} {"ops": []}'),
    "a trailing comma": raw(b'{"ops": [],}'),
    "not UTF-8": raw(b'{"ops": "\xff"}'),
    "a list": raw(b"[]"),
    "a string": raw(b'"ops"'),
    "null": raw(b"null"),
    "nested deeply": raw(b"[" * 200_000 + b"]" * 200_000),
    "nested deeply inside": raw(b'{"ops": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"),
    "nested deeply in objects": raw(b'{"a":' * 200_000 + b"1" + b"}" * 200_000),
    "a number of 5,000 digits": raw(b'{"ops": ' + b"9" * 5_000 + b"}"),
    "a form": raw(b"ops=", kind="application/x-www-form-urlencoded", code="unsupported_media_type"),
    "plain text": raw(b'{"ops": []}', kind="text/plain", code="unsupported_media_type"),
    "almost JSON": raw(b'{"ops": []}', kind="application/jsonp", code="unsupported_media_type"),
    "no content type": raw(b'{"ops": []}', kind=None, code="unsupported_media_type"),
    "no content type in a PUT": raw(b"{}", kind=None, code="unsupported_media_type", method="PUT", path=DEFAULT),
    "a form in a PUT": raw(b"{}", kind="text/plain", code="unsupported_media_type", method="PUT", path=DEFAULT),
    "half a document in a PUT": raw(b"{", method="PUT", path=DEFAULT),
    "no content type for a spout": raw(b"{}", kind=None, code="unsupported_media_type", method="PUT", path=SPOUT),
    "half a document for a spout": raw(b"{", method="PUT", path=SPOUT),
}

DOCUMENTS = {
    **{f"a root id {kind}": init(root_id=value) for kind, value in BAD_IDS.items()},
    **{f"an edge {kind}": init(edges=[OTHER, value]) for kind, value in BAD_IDS.items()},
    **{f"an acked edge {kind}": ack(edge_id=value) for kind, value in BAD_IDS.items()},
    **{f"a child {kind}": ack(children=[value]) for kind, value in BAD_IDS.items()},
    **{f"an ack val {kind}": compact(ack_val=value) for kind, value in BAD_IDS.items() if kind != "zero"},
    **{f"a spout task {kind}": init(spout_task=value) for kind, value in BAD_NAMES.items()},
    **{f"a component {kind}": fail(component=value) for kind, value in BAD_NAMES.items()},
    "an init without root id": init(root_id=None),
    "an init without spout task": init(spout_task=None),
    "an init without edges": Bad(path=f"{DEFAULT}/init", request=_json({"root_id": ROOT, "spout_task": "orders"})),
    "an ack without edge": Bad(path=f"{DEFAULT}/ack", request=_json({"root_id": ROOT})),
    "an ack with children only": Bad(path=f"{DEFAULT}/ack", request=_json({"root_id": ROOT, "children": [EDGE]})),
    "a reset without root id": Bad(path=f"{DEFAULT}/reset-timeout", request=_json({}), says="root_id"),
    "an unknown field": init(edge="x"),
    "a field of another operation": init(reason="x"),
    "a field in capitals": init(Edges=[EDGE]),
    "the op of a batch": init(op="init"),
    "a field that is no Unicode": raw(b'{"\\ud800": 1}', path=f"{DEFAULT}/init"),
    "an edge twice": init(edges=[EDGE, EDGE]),
    "an edge twice among others": init(edges=[EDGE, OTHER, EDGE]),
    "a child twice among others": ack(children=[OTHER, "0" * 15 + "8", OTHER]),
    "edges that XOR to zero": init(edges=[EDGE, OTHER, "0000000000000003"]),
    "an edge that is its own child": ack(children=[EDGE]),
    "a child twice": ack(children=[OTHER, OTHER]),
    "an edge and children that XOR to zero": ack(children=[OTHER, "0000000000000003"]),
    "edges that are no list": init(edges=EDGE),
    "edges that are an object": init(edges={EDGE: 1}),
    "edges and ack val": init(ack_val=EDGE),
    "edges and outstanding": init(outstanding=1),
    "children and ack val": ack(children=[OTHER], ack_val=EDGE, edge_id=EDGE),
    "an acked edge and outstanding": ack(outstanding=-1),
    "a drop as a number": ack(dropped=1),
    "a drop as text": ack(dropped="true"),
    "outstanding of 33 bits": compact(outstanding=2**31),
    "outstanding below 32 bits": compact(outstanding=-(2**31) - 1),
    "outstanding as a fraction": compact(outstanding=1.5),
    "outstanding as text": compact(outstanding="1"),
    "outstanding as a boolean": compact(outstanding=True),
    "outstanding not a number": compact(outstanding=float("nan")),
    "outstanding infinite": compact(outstanding=float("inf")),
    "outstanding of a hundred digits": compact(outstanding=10**100),
    "a message id of 1,025 bytes": init(message_id="x" * 1_025),
    "a message id of 1,025 bytes in fewer characters": init(message_id="ü" * 512 + "x"),
    "a message id that is a number": init(message_id=42),
    "a message id with a lone surrogate": init(message_id="\ud800"),
    "a reason of 1,025 characters": fail(reason="x" * 1_025),
    "a reason with a lone surrogate": fail(reason="a\udfff"),
    "a reason that is an object": fail(reason={}),
    "a timeout of 99 ms": init(message_timeout_ms=99),
    "a timeout of none": init(message_timeout_ms=0),
    "a negative timeout": init(message_timeout_ms=-100),
    "a timeout of eight days": init(message_timeout_ms=DAYS_8),
    "a timeout as text": init(message_timeout_ms="1000"),
    "a timeout as a fraction": init(message_timeout_ms=1000.5),
    "a progress timeout of 99 ms": init(progress_timeout_ms=99),
    "a progress timeout of eight days": init(progress_timeout_ms=DAYS_8),
    "a progress timeout of false": init(progress_timeout_ms=False),
    "129 ackers": topology(ackers=129),
    "minus one ackers": topology(ackers=-1),
    "ackers as text": topology(ackers="4"),
    "true ackers": topology(ackers=True),
    "a message timeout of 99 ms": topology(message_timeout_ms=99),
    "a message timeout of eight days": topology(message_timeout_ms=DAYS_8),
    "a topology's progress timeout of 99 ms": topology(progress_timeout_ms=99),
    "a cap of none": topology(max_spout_pending=0),
    "a cap of 32 bits": topology(max_spout_pending=2**31),
    "a dedupe window of 99 ms": topology(dedupe_window_ms=99),
    "a dedupe window of eight days": topology(dedupe_window_ms=DAYS_8),
    "a retention of 999 ms": topology(retention_ms=999),
    "a retention of two days": topology(retention_ms=2 * 86_400_000),
    "root details of a number": topology(root_details=1),
    "an end of roots that is unknown": topology(end_on="all"),
    "a grace of less than none": topology(grace_ms=-1),
    "a grace of two days": topology(grace_ms=2 * 86_400_000),
    "a share above one": topology(trace=1.5),
    "a share as text": topology(trace="0.5"),
    "an unknown setting": topology(retention=5),
    "a setting that callers do not see": topology(buckets=5),
    "a spout with an unknown field": Bad(path=SPOUT, method="PUT", request=_json({"url": "x"}), says="url"),
    "a spout that is ephemeral by a word": Bad(path=SPOUT, method="PUT", request=_json({"ephemeral": "no"})),
    "a spout with a callback of a word": Bad(path=SPOUT, method="PUT", request=_json({"callback": "webhook"})),
    "a release without cursor": Bad(path=f"{SPOUT}/completions/release", request=_json({}), says="cursor"),
    "a release with more": Bad(path=f"{SPOUT}/completions/release", request=_json({"cursor": "A", "all": True})),
}

GOOD = {"op": "init"} | INIT

BATCHES = {
    "no ops": Bad(path=f"{DEFAULT}/batch", request=_json({})),
    "ops that are an object": Bad(path=f"{DEFAULT}/batch", request=_json({"ops": {}})),
    "more than ops": Bad(path=f"{DEFAULT}/batch", request=_json({"ops": [GOOD], "topology": "default"})),
    "an op that is a word": batch("init", index=0),
    "an op that is null": batch(GOOD, None, index=1),
    "an op that is a list": batch(GOOD, GOOD, [], index=2),
    "an op without op": batch(GOOD, INIT, index=1, says="op"),
    "an unknown op": batch(GOOD, {"op": "emit"} | INIT, index=1, says="op"),
    "an op that is a number": batch({"op": 1}, index=0, says="op"),
    "an op that is unhashable": batch({"op": []}, index=0, says="op"),
    "a bad id in the last of many": batch(*[GOOD] * 99, {"op": "ack", "root_id": ROOT, "edge_id": "E"}, index=99),
    "two bad ones": batch(GOOD, {"op": "fail"}, {"op": "fail"}, index=1, says="root_id"),
    "an unknown field of one": batch(GOOD | {"index": 3}, index=0, says="index"),
    "a timeout of one": batch(GOOD, GOOD | {"message_timeout_ms": 99}, index=1, says="message_timeout_ms"),
}  # fmt: skip

ADDRESSES = {
    "nothing": Bad(path="/nothing", method="GET", code="not_found"),
    "a wrong method at the root": Bad(path="/", method="POST", code="method_not_allowed"),
    "nothing under v1": Bad(path="/v1/nothing", method="GET", code="not_found"),
    "another version": Bad(path="/v2/topologies", method="GET", code="not_found"),
    "a trailing slash": Bad(path=f"{DEFAULT}/batch/", request=_json({"ops": [GOOD]}), code="not_found"),
    "an unknown verb": Bad(path=f"{DEFAULT}/emit", request=_json(INIT), code="not_found"),
    "GET of a batch": Bad(path=f"{DEFAULT}/batch", method="GET", code="method_not_allowed"),
    "PUT of an init": Bad(path=f"{DEFAULT}/init", method="PUT", request=_json(INIT), code="method_not_allowed"),
    "POST of a topology": Bad(path=DEFAULT, request=_json({}), code="method_not_allowed"),
    "PATCH of a topology": Bad(path=DEFAULT, method="PATCH", request=_json({}), code="method_not_allowed"),
    "POST of completions": Bad(path=f"{SPOUT}/completions", request=_json({}), code="method_not_allowed"),
    **{f"an unknown topology: {verb}": Bad(path=f"{V1}/nowhere/{verb}", request=_json(document),
                                          code="unknown_topology", says="nowhere")
       for verb, document in {"init": INIT, "ack": ACK, "fail": FAIL, "reset-timeout": FAIL,
                              "batch": {"ops": [GOOD]}}.items()},
    "an unknown topology itself": Bad(path=f"{V1}/nowhere", method="GET", code="unknown_topology"),
    "a root of an unknown topology": Bad(path=f"{V1}/nowhere/roots/{ROOT}", method="GET", code="unknown_topology"),
    "spouts of an unknown topology": Bad(path=f"{V1}/nowhere/spouts", method="GET", code="unknown_topology"),
    "a new spout of an unknown topology": Bad(path=f"{V1}/nowhere/spouts/a", method="PUT", code="unknown_topology"),
    "completions of an unknown topology": Bad(path=f"{V1}/nowhere/spouts/a/completions", method="GET",
                                              code="unknown_topology"),
    "an unknown root": Bad(path=f"{DEFAULT}/roots/{ROOT}", method="GET", code="unknown_root", says=ROOT),
    "states in an unknown topology": Bad(path=f"{V1}/nowhere/roots/states", request=_json({"root_ids": []}),
                                         code="unknown_topology"),
    "a root id of zero": Bad(path=f"{DEFAULT}/roots/{'0' * 16}", method="GET"),
    "a root id in capitals": Bad(path=f"{DEFAULT}/roots/00000000000000C1", method="GET"),
    "a short root id": Bad(path=f"{DEFAULT}/roots/c1", method="GET"),
    "an unknown spout task": Bad(path=f"{DEFAULT}/spouts/nobody", method="GET", code="unknown_spout", says="nobody"),
    "completions of an unknown spout task": Bad(path=f"{DEFAULT}/spouts/nobody/completions", method="GET",
                                                code="unknown_spout"),
    "a release of an unknown spout task": Bad(path=f"{DEFAULT}/spouts/nobody/completions/release",
                                              request=_json({"cursor": "AQ"}), code="unknown_spout"),
    "a topology with a long name": Bad(path=f"{V1}/{LONG_NAME}", method="PUT"),
    "a topology with a dot first": Bad(path=f"{V1}/.a", method="PUT"),
    "a topology with a line feed": Bad(path=f"{V1}/a%0A", method="PUT"),
    "a topology with a brace": Bad(path=f"{V1}/a%7Db", method="PUT"),
    "a topology with Unicode": Bad(path=f"{V1}/%C3%BC", method="PUT"),
    "a topology with broken Unicode": Bad(path=f"{V1}/a%FF", method="PUT"),
    "a spout task with a space": Bad(path=f"{DEFAULT}/spouts/a%20b", method="PUT"),
    "operations of a bad name": Bad(path=f"{V1}/a%20b/init", request=_json(INIT)),
}  # fmt: skip

READING = f"{SPOUT}/completions"

QUERIES = {
    **{f"limit={value}": Bad(path=f"{READING}?limit={value}", method="GET", says="limit")
       for value in ("0", "-1", "10001", "all", "", "1e3", "9" * 5_000)},
    **{f"wait_ms={value}": Bad(path=f"{READING}?wait_ms={value}", method="GET", says="wait_ms")
       for value in ("-1", "60001", "forever", "0.5")},
    **{f"after={value}": Bad(path=f"{READING}?after={value}", method="GET", says="cursor")
       for value in ("", "x", "AQ", "!!!!", "%FF", "A" * 23, "%C3%A9", "AQ==")},
    "results=some": Bad(path=f"{DEFAULT}/batch?results=some", request=_json({"ops": [GOOD]}), says="results"),
    **{f"a key {kind}": Bad(path=f"{DEFAULT}/init", request=_json(INIT) | {"headers": JSON | {"Idempotency-Key": key}},
                            says="Idempotency-Key")
       for kind, key in {"empty": "", "of 129 characters": "k" * 129, "with a space": "a b",
                         "with a tab": "a\tb"}.items()},
}  # fmt: skip
