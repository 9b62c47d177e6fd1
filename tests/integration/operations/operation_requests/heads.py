"""Rows about the head of a request, and how its body arrives: types, lengths, chunks, queries, ids, keys."""

from acker_protocol.wire.packed import CONTENT_TYPE as PACKED

from tests.integration.operations.operation_requests.writing import (
    A1,
    A2,
    ACK,
    BODIES,
    E2,
    FAIL,
    FOREIGN,
    INIT,
    JSON,
    SOME_VERBS,
    V1,
    VERBS,
    ack,
    batch,
    compact,
    done,
    init,
    packed,
    packed_request,
    padded,
    put,
    raw,
    request,
)
from tests.support.asking import FRESH, Row, Sends, Step

ADDRESS = f"{V1}/default/ack"
MOST_BYTES = 131_072
"""The largest body that the ackers of the table take."""
UNCHECKED_BYTES = 65_536
"""The largest JSON that is built without a look at its shape."""
MOST_OPERATIONS = 20
POST = (f"POST {ADDRESS} HTTP/1.1", "Host: localhost", "Content-Type: application/json")
BODY = compact(ACK).decode()
LENGTH = f"Content-Length: {len(BODY)}"
EXPECT = (("Expect", "100-continue"),)

CONTENT_TYPES = [
    *(request(f"no content type: {verb}", verb, kind=None) for verb in VERBS),
    *(request(f"plain text: {verb}", verb, kind="text/plain") for verb in SOME_VERBS),
    *(request(f"JSON with a charset: {verb}", verb, kind="application/json; charset=utf-8") for verb in SOME_VERBS),
    request("JSON in capitals", kind="Application/JSON"),
    request("a type that ends as JSON", kind="application/problem+json"),
    request("an empty content type", kind=""),
    request("a packed batch to a single address", kind=PACKED, body=packed(ack())),
    request("an unknown type to a batch", "batch", kind="application/msgpack"),
    request("a packed type with a parameter", "batch", kind=f"{PACKED}; version=1", body=packed(ack())),
    request("a body that says it is compressed", headers=(("Content-Encoding", "gzip"),)),
]

LENGTHS = [
    *(request(f"no body at all: {verb}", verb, body=(), length="") for verb in SOME_VERBS),
    request("a body of no length", body=(), length="0"),
    request("a length with zeros before", length=f"000{len(BODY)}"),
    request("a length of eleven digits", length=f"{len(BODY):011}"),
    *(
        request(f"a body that is said to be too large, and is not sent: {verb}", verb, body=(),
                length=str(MOST_BYTES + 1), sends=Sends.WITHHELD)
        for verb in VERBS
    ),
    request("a single operation of the largest JSON without a look at its shape", body=padded(ACK, UNCHECKED_BYTES)),
    request("a single operation of a byte more", body=padded(ACK, UNCHECKED_BYTES + 1)),
    request("a single operation of the largest body", body=padded(ACK, MOST_BYTES)),
    *(request(f"a body that is too large: {verb}", verb, body=padded(BODIES[verb], MOST_BYTES + 1))
      for verb in SOME_VERBS),
    request("a batch of the largest body", "batch", body=padded(BODIES["batch"], MOST_BYTES)),
    request("a large single operation with an unknown field", body=padded(ACK | {"x": 1}, UNCHECKED_BYTES + 1)),
    request("a large single operation with a list of lists",
            body=padded(ACK | {"children": [[]]}, UNCHECKED_BYTES + 1)),
    request("a large batch with an unknown field", "batch",
            body=padded({"ops": [ack(), ack(A2, x=1)]}, UNCHECKED_BYTES + 1)),
    request("a large batch with more than operations", "batch",
            body=padded({"ops": [ack()], "x": 1}, UNCHECKED_BYTES + 1)),
    raw("a length below zero", *POST, "Content-Length: -1", body=BODY),
    raw("two lengths that are equal", *POST, LENGTH, LENGTH, body=BODY),
    raw("a length and chunks", *POST, LENGTH, "Transfer-Encoding: chunked", body=BODY),
]  # fmt: skip

CHUNKED = [
    *(request(f"a chunked body: {verb}", verb, chunked=True) for verb in VERBS),
    packed_request("a chunked packed body", packed(init(), ack()), chunked=True),
    request("chunks of a byte", body=tuple(bytes([each]) for each in compact(ACK)), chunked=True),
    request("a chunked body of nothing", body=(), chunked=True),
    request("a chunked body of the largest size", chunked=True,
            body=(compact(ACK), b" " * (MOST_BYTES - len(compact(ACK))))),
    request("a chunked body that grows too large", body=(compact(ACK), b" " * MOST_BYTES), chunked=True),
    request("a chunked batch that grows too large", "batch", body=(compact(BODIES["batch"]), b" " * MOST_BYTES),
            chunked=True),
    request("a chunked body with an idempotency key", "init", chunked=True, headers=(("Idempotency-Key", "k"),)),
    request("a chunked body of a wrong type", kind="text/plain", chunked=True),
    raw("chunks with an extension and a trailer", *POST, "Transfer-Encoding: chunked",
        body=f"{len(BODY):x};x=1\r\n{BODY}\r\n0\r\nX-Sum: 1\r\n\r\n"),
    raw("a chunk of a size that is a word", *POST, "Transfer-Encoding: chunked", body=f"x\r\n{BODY}\r\n0\r\n\r\n"),
    raw("an encoding that is not known", *POST, "Transfer-Encoding: gzip", body=BODY),
    request("a body that comes in two parts", body=(compact(ACK)[:9], compact(ACK)[9:])),
    request("a batch that comes byte by byte", "batch",
            body=tuple(bytes([each]) for each in compact({"ops": [ack()]}))),
]  # fmt: skip

EXPECTING = [
    *(request(f"a caller who waits for 100 Continue: {verb}", verb, headers=EXPECT) for verb in SOME_VERBS),
    request("100 Continue and a wrong type", kind="text/plain", headers=EXPECT),
    request("100 Continue and a body that is too large", body=(), length=str(MOST_BYTES + 1), headers=EXPECT),
    request("100 Continue and an unknown topology", topology="no-such", headers=EXPECT),
    request("100 Continue and an unknown parameter", query="?x=1", headers=EXPECT),
    request("100 Continue and no key", acker="keyed", headers=EXPECT),
    request("100 Continue and a wrong method", method="PUT", headers=EXPECT),
    request("100 Continue and chunks", headers=EXPECT, chunked=True),
    raw("a caller who could wait for 100 Continue, and does not", *POST, "Expect: 100-continue", LENGTH, body=BODY),
]

BREAKING = [
    *(request(f"a client that closes within the body: {verb}", verb, sends=Sends.CUT) for verb in ("ack", *SOME_VERBS)),
    packed_request("a client that closes within a packed body", packed(init(), ack()), sends=Sends.CUT),
    request("a client that closes within chunks", chunked=True, sends=Sends.CUT),
    request("a client that closes within the body of a repeat", headers=(("Idempotency-Key", "k"),), sends=Sends.CUT),
    request("a body that does not arrive", acker="hasty", sends=Sends.LATE),
    request("a batch that does not arrive", "batch", acker="hasty", sends=Sends.LATE),
]

REPEATED_HEADERS = [
    request("a header that is given twice", headers=(("X-Other", "1"), ("X-Other", "2"))),
    request("a header that is given twice, of a batch", "batch", headers=(("X-Other", "1"), ("X-Other", "1"))),
    request("a wrong content type behind a right one", headers=(("Content-Type", "text/plain"),)),
    request("a right content type behind a wrong one", kind="text/plain", headers=(("Content-Type", JSON),)),
    request("the packed type behind JSON", "batch", headers=(("Content-Type", PACKED),)),
    request("two idempotency keys", headers=(("Idempotency-Key", "one"), ("Idempotency-Key", "two"))),
    request("a wrong idempotency key behind a right one", headers=(("Idempotency-Key", "k"), ("Idempotency-Key", ""))),
    request("a right idempotency key behind a wrong one", headers=(("Idempotency-Key", ""), ("Idempotency-Key", "k"))),
    request("two request ids", headers=(("X-Request-Id", "one"), ("X-Request-Id", "two"))),
    request("a wrong key behind a right one", acker="keyed",
            headers=(("Authorization", "Bearer ack"), ("Authorization", "Bearer nobody"))),
    request("a right key behind a wrong one", acker="keyed",
            headers=(("Authorization", "Bearer nobody"), ("Authorization", "Bearer ack"))),
    raw("two hosts", *POST, "Host: other", LENGTH, body=BODY),
]  # fmt: skip

KEY_FORMS = {
    "of 128 characters": "k" * 128,
    "of 129 characters": "k" * 129,
    "of nothing": "",
    "with a space": "a b",
    "beyond ASCII": "\xe9",
}

IDEMPOTENCY = [
    *(request(f"an idempotency key {form}", headers=(("Idempotency-Key", key),)) for form, key in KEY_FORMS.items()),
    *(request(f"a repeat: {verb}", verb, headers=(("Idempotency-Key", "k"),), repeated=1) for verb in VERBS),
    request("a repeat of a repeat", "init", headers=(("idempotency-key", "k"),), repeated=2),
    request("a wrong idempotency key of a batch", "batch", headers=(("Idempotency-Key", "a b"),)),
    request("a repeat of an init that was a conflict", "init", INIT | {"message_id": "2"}, given=(done(init()),),
            headers=(("Idempotency-Key", "k"),), repeated=1),
    request("a repeat of an init over the cap", "init", topology="capped", headers=(("Idempotency-Key", "k"),),
            repeated=1),
    request("a repeat that is chunked", "init", chunked=True, headers=(("Idempotency-Key", "k"),), repeated=1),
    request("a repeat of a batch that wants the exceptions", "batch", query="?results=exceptions",
            headers=(("Idempotency-Key", "k"),), repeated=1),
    packed_request("a repeat of a packed batch", packed(init(), ack()), headers=(("Idempotency-Key", "k"),),
                   repeated=1),
    request("the key of another request", body=ACK | {"component": "count"}, headers=(("Idempotency-Key", "k"),),
            given=(done(init()), Step(path=ADDRESS, document=ACK | {"edge_id": E2}, key="k"))),
    request("the key of another address", "fail", headers=(("Idempotency-Key", "k"),),
            given=(done(init()), Step(path=ADDRESS, document=ACK, key="k"))),
    request("the key of the same operation in a batch", headers=(("Idempotency-Key", "k"),),
            given=(done(init()), Step(path=f"{V1}/default/batch", document={"ops": [ack()]}, key="k"))),
    request("a repeat of an init of a new spout task", "init", topology=FRESH, given=(put(),),
            headers=(("Idempotency-Key", "k"),), repeated=1),
]  # fmt: skip

QUERIES = [
    *(request(f"an unknown parameter: {verb}", verb, query="?x=1") for verb in SOME_VERBS),
    request("the parameter of a batch at a single address", query="?results=all"),
    request("a parameter that is misspelt", "batch", query="?result=all"),
    request("a question mark and no more", query="?"),
    request("a key in the query", acker="keyed", query="?key=ack"),
    *(request(f"a batch with {query}", "batch", query=f"?{query}") for query in (
        *("results=all", "results=exceptions", "results=some"),
        *("results=all&results=exceptions", "results=exceptions&results=all", "results=all&x=1"),
        *("results=%61ll", "resul%74s=exceptions"),
    )),
]  # fmt: skip

REQUEST_IDS = [
    *(request(f"a request id: {verb}", verb, headers=(("X-Request-Id", f"checkout-{verb}"),)) for verb in SOME_VERBS),
    request("a request id of 128 characters", headers=(("X-Request-Id", "x" * 128),)),
    request("a request id of 129 characters", headers=(("X-Request-Id", "x" * 129),)),
    request("a request id of nothing", headers=(("X-Request-Id", ""),)),
    request("a request id beyond ASCII", headers=(("X-Request-Id", "\xe9"),)),
    request("a request id of what is malformed", body=b"{", headers=(("X-Request-Id", "r1"),)),
    request("a request id of a wrong method", method="GET", headers=(("X-Request-Id", "r1"),)),
    request("a request id without a key", acker="keyed", headers=(("X-Request-Id", "r1"),)),
]


def shown(authorization: str) -> tuple[tuple[str, str], ...]:
    """The header that shows a key."""
    return (("Authorization", authorization),)


KEYS = [
    *(request(f"no key: {verb}", verb, acker="keyed") for verb in VERBS),
    *(request(f"an unknown key: {verb}", verb, acker="keyed", headers=shown("Bearer nobody")) for verb in SOME_VERBS),
    *(request(f"a key of scope ack: {verb}", verb, acker="keyed", headers=shown("Bearer ack")) for verb in VERBS),
    *(request(f"a key of scope spout: {verb}", verb, acker="keyed", headers=shown("Bearer spout"))
      for verb in SOME_VERBS),
    request("a key of scope admin", "init", acker="keyed", headers=shown("Bearer admin")),
    *(request(f"a key for another topology: {verb}", verb, acker="keyed", headers=shown("Bearer elsewhere"))
      for verb in VERBS),
    request("a key for this topology among others", acker="keyed", topology="orders",
            headers=shown("Bearer elsewhere")),
    batch("a key of scope ack: a batch without an init", ack(), acker="keyed", headers=shown("Bearer ack")),
    packed_request("a key of scope ack: a packed batch", packed(init(), ack()), acker="keyed",
                   headers=shown("Bearer ack")),
    packed_request("a key of scope ack: a packed batch without an init", packed(ack()), acker="keyed",
                   headers=shown("Bearer ack")),
    request("a key of scope ack: a batch that is malformed", "batch", {"ops": [init(x=1)]}, acker="keyed",
            headers=shown("Bearer ack")),
    *(request(f"a key as {form!r}", acker="keyed", headers=shown(form)) for form in (
        *("bearer ack", "Bearer ack ", "Bearer\tack", "Bearer"),
        *("Basic ack", "Bearer ack extra"),
    )),
    request("a key where none are configured", headers=shown("Bearer nobody")),
    request("no key and a wrong method", acker="keyed", method="GET"),
    request("no key and OPTIONS", acker="keyed", method="OPTIONS"),
    request("a key for another topology and an encoded name", acker="keyed", target=f"{V1}/d%65fault/ack",
            headers=shown("Bearer elsewhere")),
    request("a key and a bad name", acker="keyed", topology="a%20b", headers=shown("Bearer ack")),
    request("a key for others and a bad name", acker="keyed", topology="a%20b", headers=shown("Bearer elsewhere")),
]  # fmt: skip

SEVERAL = [
    request("no key, and all else wrong", acker="keyed", body=b"{", kind="text/plain", query="?x=1"),
    request("no key, and a body that is too large", acker="keyed", body=padded(ACK, MOST_BYTES + 1)),
    request("no key, and an unknown topology", acker="keyed", topology="no-such"),
    request("a wrong scope, and all else wrong", "init", acker="keyed", body=b"{", kind="text/plain", query="?x=1",
            headers=shown("Bearer ack")),
    request("a wrong scope, and an unknown topology", "init", acker="keyed", topology="no-such",
            headers=shown("Bearer ack")),
    batch("a batch with an init, a wrong scope and an unknown topology", init(), acker="keyed", topology="no-such",
          headers=shown("Bearer ack")),
    batch("a batch with an init, a wrong scope and a wrong idempotency key", init(), acker="keyed",
          headers=(*shown("Bearer ack"), ("Idempotency-Key", "a b"))),
    request("an unknown parameter, and all else wrong", body=b"{", kind="text/plain", query="?x=1",
            topology="no-such"),
    request("an unknown parameter, and a bad name", topology="a%20b", query="?x=1"),
    request("a wrong value of a parameter, and all else wrong", "batch", b"{", kind="text/plain",
            query="?results=some", topology="no-such"),
    request("a wrong value of a parameter, and a bad name", "batch", topology="a%20b", query="?results=some"),
    request("a wrong type, and an unknown topology", kind="text/plain", topology="no-such"),
    request("a wrong type, and a body that is too large", kind="text/plain", body=padded(ACK, MOST_BYTES + 1)),
    request("a wrong type, and a wrong idempotency key", kind="text/plain", headers=(("Idempotency-Key", ""),)),
    request("a body that is too large, and an unknown topology", body=padded(ACK, MOST_BYTES + 1), topology="no-such"),
    request("JSON that is broken, and an unknown topology", body=b"{", topology="no-such"),
    request("JSON that is broken, and a wrong idempotency key", body=b"{", headers=(("Idempotency-Key", ""),)),
    request("a wrong field, and an unknown topology", body=FAIL, topology="no-such"),
    request("a wrong idempotency key, and an unknown topology", topology="no-such",
            headers=(("Idempotency-Key", ""),)),
    batch("too many operations, and a wrong one", *[ack(A1, x=1)] * (MOST_OPERATIONS + 1)),
]  # fmt: skip

CONNECTIONS = [
    request("Connection: close", headers=(("Connection", "close"),)),
    request("Connection: close, and a problem", body=b"{", headers=(("Connection", "close"),)),
    request("HTTP/1.0", version="1.0"),
    request("HTTP/1.0 that would keep the connection", "init", version="1.0", headers=(("Connection", "keep-alive"),)),
    request("HTTP/1.0 without a length", version="1.0", body=(), length=""),
    raw("a wish for HTTP/2", *POST, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAAB",
        LENGTH, body=BODY),
    raw("no host", POST[0], POST[2], LENGTH, body=BODY),
    raw("a header over two lines", *POST, "X-Long: a", " b", LENGTH, body=BODY),
    raw("a head that is too large", *POST, f"X-Long: {'x' * 70_000}", LENGTH, body=BODY),
]  # fmt: skip

ORIGINS = [
    *(request(f"a web page of another origin: {verb}", verb, headers=(("Origin", "https://evil.example"),),
              changed=FOREIGN) for verb in VERBS),
    *(request(f"Sec-Fetch-Site says {site}", headers=(("Sec-Fetch-Site", site),),
              changed="" if site in ("none", "same-origin") else FOREIGN)
      for site in ("cross-site", "same-site", "same-origin", "none")),
    request("the page of the acker", headers=(("Origin", "http://localhost"), ("Sec-Fetch-Site", "same-origin"))),
    request("a web page of another origin and a wrong method", method="OPTIONS",
            headers=(("Origin", "https://evil.example"),), changed=FOREIGN),
    request("a web page of another origin and a key", "ack", acker="keyed",
            headers=(("Origin", "https://evil.example"), *shown("Bearer ack"))),
    request("a web page of another origin and no key", acker="keyed", headers=(("Origin", "https://evil.example"),)),
    raw("another name as host", f"POST {ADDRESS} HTTP/1.1", "Host: evil.example", "Content-Type: application/json",
        LENGTH, body=BODY, changed=FOREIGN),
]  # fmt: skip

ROWS: list[Row] = [
    *(*CONTENT_TYPES, *LENGTHS, *CHUNKED, *EXPECTING, *BREAKING, *REPEATED_HEADERS),
    *(*IDEMPOTENCY, *QUERIES, *REQUEST_IDS, *KEYS, *ORIGINS, *SEVERAL, *CONNECTIONS),
]
