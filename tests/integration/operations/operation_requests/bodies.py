"""Rows about the body: what is no JSON, what is no operation, and the packed form."""

from acker_protocol.wire.packed import HEADER, LENGTH_BYTES, VERSION

from tests.integration.operations.operation_requests.heads import MOST_OPERATIONS
from tests.integration.operations.operation_requests.writing import (
    A1,
    A2,
    A3,
    ACK,
    BODIES,
    E1,
    E2,
    E3,
    INIT,
    ack,
    batch,
    compact,
    fail,
    init,
    packed,
    packed_request,
    patched,
    request,
    reset,
)
from tests.support.asking import Row

INTEGER = "an integer may be written as 30000.0 or 3e4, as JSON Schema has it"
TEXT = compact(ACK)

NO_JSON = {
    "of nothing": b"",
    "of two documents": TEXT + TEXT,
    "with a byte-order mark": b"\xef\xbb\xbf" + TEXT,
    "in UTF-16": TEXT.decode().encode("utf-16"),
    "that is no UTF-8": b'{"root_id":"\xff"}',
    "that is null": b"null",
    "that is a list": b"[" + TEXT + b"]",
    "with a control character in a string": b'{"root_id":"\n"}',
}

ODD_JSON = {
    "with spaces around": b" \r\n\t" + TEXT + b" \n",
    "with spaces inside": TEXT.replace(b":", b" : ").replace(b",", b" , "),
    "with escapes in a name": TEXT.replace(b"root_id", b"root\\u005fid"),
    "with escapes in a value": TEXT.replace(E1.encode(), b"\\u0030" + E1[1:].encode()),
    "with a field twice": b'{"root_id":"zz",' + TEXT[1:],
    "with a field twice, the wrong one last": TEXT[:-1] + b',"root_id":"zz"}',
    "with a lone surrogate": TEXT[:-1] + b',"component":"\\ud83d"}',
    "with NaN": TEXT[:-1] + b',"component":NaN}',
    "with a number of a thousand digits": TEXT[:-1] + b',"component":' + b"9" * 1_000 + b"}",
    "with null for what may be left out": TEXT[:-1] + b',"component":null,"children":null}',
    "with null for what must be there": b'{"root_id":null,"edge_id":null}',
    "with an unknown field that is null": TEXT[:-1] + b',"x":null}',
}

JSON_BODIES = [
    *(request(f"an ack {form}", body=body) for form, body in NO_JSON.items()),
    *(request(f"a batch {form}", "batch", NO_JSON[form])
      for form in ("of nothing", "with a byte-order mark", "that is null")),
    *(request(f"an ack {form}", body=body) for form, body in ODD_JSON.items()),
    *(request(f"a batch with an ack {form}", "batch", b'{"ops":[{"op":"ack",' + body.strip()[1:] + b"]}")
      for form, body in ODD_JSON.items() if form.startswith(("with a field", "with escapes", "with null"))),
]  # fmt: skip

SINGLES = [
    request("an operation without a field", "init", {}),
    request("an ack with an unknown field", body=ACK | {"x": 1}),
    request("an init with an unknown field", "init", INIT | {"x": 1}),
    request("an operation with op", body=ack()),
    request("a batch at the address of a single operation", body={"ops": [ack()]}),
    request("a single operation at the address of batches", "batch", ACK),
    request("an init without a spout task", "init", {"root_id": A1, "edges": [E1]}),
    request("an init without edges", "init", {"root_id": A1, "spout_task": "orders"}),
    request("an ack with a root id of zero", body=ACK | {"root_id": "0" * 16}),
]  # fmt: skip

INTEGERS = [
    request("outstanding as 1.0", "init", b'{"root_id":"%b","spout_task":"orders","ack_val":"%b","outstanding":1.0}'
            % (A1.encode(), E1.encode()), changed=INTEGER),
    request("outstanding as -1e0", body=b'{"root_id":"%b","ack_val":"%b","outstanding":-1e0}'
            % (A1.encode(), E1.encode()), changed=INTEGER),
    request("outstanding as 0.5", body={"root_id": A1, "ack_val": E1, "outstanding": 0.5}),
    request("a timeout as 30000.0", "init", INIT | {"message_timeout_ms": 30000.0}, changed=INTEGER),
    request("a progress timeout as 0.0", "init", INIT | {"progress_timeout_ms": 0.0}, changed=INTEGER),
    batch("a batch with a timeout as 30000.0", init(message_timeout_ms=30000.0), changed=INTEGER),
    batch("a batch with outstanding as 0.0",
          {"op": "ack", "root_id": A1, "ack_val": E1, "outstanding": 0.0}, changed=INTEGER),
]  # fmt: skip

BATCHES = [
    request("a batch without ops", "batch", {}),
    request("a batch of no operations", "batch", {"ops": []}),
    request("a batch of no operations that wants the exceptions", "batch", {"ops": []}, query="?results=exceptions"),
    request("more than ops", "batch", {"ops": [ack()], "topology": "default"}),
    request("an op that is null", "batch", {"ops": [ack(), None]}),
    batch("an unknown op", ack(), {"op": "emit"} | ACK),
    batch("a bad id in the last operation", ack(), ack(A2), ack(A3, edge_id="x")),
    batch("an operation with an unknown field", ack(x=1)),
    batch("as many operations as a batch may have", *[ack()] * MOST_OPERATIONS),
    batch("one operation too many", *[ack()] * (MOST_OPERATIONS + 1)),
]

SEVEN = (
    init(A1, edges=[E1, E2], message_id="42", component="read", trace=True),
    ack(A1, children=[E2, E3], component="split"),
    {"op": "ack", "root_id": A2, "ack_val": E1},
    {"op": "ack", "root_id": A2, "ack_val": E2, "outstanding": 1},
    fail(A3, reason="no \u2603", component="count"),
    reset(A1),
    init(A3, message_timeout_ms=60_000, progress_timeout_ms=0),
)
"""Operations with every field that the packed form has."""
TWO = packed(init(), ack())
NAMED = packed(init(A1, edges=[E1, E2]))
RECORD_AT = HEADER.size
LONG = 10_000
SHARING = packed(*[fail(reason="x")] * MOST_OPERATIONS)
UNPACKING_TO_MUCH = SHARING[: -LENGTH_BYTES - 1] + LONG.to_bytes(LENGTH_BYTES) + b"x" * LONG
"""A batch whose operations share a string that is too long once each has a copy."""

PACKED_BODIES = [
    packed_request("a packed batch", packed(*SEVEN)),
    batch("the same batch as JSON", *SEVEN),
    packed_request("a packed batch that wants the exceptions", packed(*SEVEN), target="/v1/topologies/default/batch"
                   "?results=exceptions"),
    packed_request("a packed batch of no operations", HEADER.pack(b"ACKP", VERSION, 0, 0)),
    packed_request("a packed body that is shorter than its header", TWO[:15]),
    packed_request("a packed body that is JSON", compact(BODIES["batch"])),
    packed_request("a packed body with a byte too many", TWO + b"\0"),
    packed_request("a packed body with too many operations", packed(*[ack()] * (MOST_OPERATIONS + 1))),
    packed_request("an unknown packed flag", patched(TWO, RECORD_AT + 2, b"\0\x40")),
    packed_request("a packed pointer beyond the strings", patched(TWO, RECORD_AT + 40, b"\0\0\0\2")),
    packed_request("a packed string that is no UTF-8", patched(TWO, len(TWO) - 1, b"\xff")),
    packed_request("packed names of edges that are not those of the ack val",
                   patched(NAMED, RECORD_AT + 16, b"\1" * 8)),
    packed_request("a packed batch that unpacks to too much", UNPACKING_TO_MUCH),
    packed_request("a packed batch with an init beyond the dedupe window",
                   packed(ack(), init(message_timeout_ms=60_001)), target="/v1/topologies/deduped/batch"),
]  # fmt: skip

ROWS: list[Row] = [*JSON_BODIES, *SINGLES, *INTEGERS, *BATCHES, *PACKED_BODIES]
