"""Rows about the address: methods, the form of the path, the topology that it names."""

from tests.integration.operations.operation_requests.writing import (
    A2,
    ACK,
    FOREIGN,
    INIT,
    SOME_VERBS,
    V1,
    VERBS,
    ack,
    batch,
    delete,
    done,
    init,
    put,
    raw,
    request,
)
from tests.support.asking import FRESH, Row

ADDRESS = f"{V1}/default/ack"
LONG = "n" * 128
HEAD = "HEAD is answered as GET is, so that a refusal names GET and is as long"

METHODS = [
    *(
        request(f"{method} of {verb}", verb, method=method, changed=HEAD if method == "HEAD" else "")
        for verb in VERBS
        for method in ("GET", "HEAD", "PUT", "OPTIONS")
    ),
    request("DELETE", method="DELETE"),
    request("OPTIONS as a browser asks before a POST", body=(), kind=None, length="", method="OPTIONS",
            headers=(("Origin", "http://page"), ("Access-Control-Request-Method", "POST")), changed=FOREIGN),
    request("a POST from a page", headers=(("Origin", "http://page"), ("Accept", "text/html")), changed=FOREIGN),
    request("TRACE", body=(), kind=None, length="", method="TRACE"),
    raw("a method that nobody knows", f"STORM {ADDRESS} HTTP/1.1", "Host: localhost", "Content-Length: 0"),
]  # fmt: skip

PATHS = [
    *(request(f"a trailing slash: {verb}", verb, target=f"{V1}/default/{verb}/") for verb in VERBS),
    request("GET with a trailing slash", method="GET", target=f"{ADDRESS}/"),
    request("HEAD with a trailing slash", method="HEAD", target=f"{ADDRESS}/", changed=HEAD),
    *(request(f"%6F in the name: {verb}", verb, target=f"{V1}/%6Frders/{verb}") for verb in VERBS),
    request("%6f in the name", target=f"{V1}/%6frders/ack"),
    request("an encoded character in the name of no topology", target=f"{V1}/n%6F-such/ack"),
    request("an encoded character in the verb", target=f"{V1}/default/%61ck"),
    request("an encoded character before the name", target="/v1/top%6Flogies/default/ack"),
    request("an encoded slash before the verb", target=f"{V1}/default%2Fack"),
    request("an encoded slash in the name", target=f"{V1}/a%2Fb/ack"),
    request("a slash in the name", target=f"{V1}/a/b/ack"),
    request("two slashes before the verb", target=f"{V1}/default//ack"),
    request("two slashes at the beginning", target="//v1/topologies/default/ack"),
    request("more behind the verb", target=f"{ADDRESS}/more"),
    request("a parameter of the path", target=f"{ADDRESS};x=1"),
    request("dots in the path", target=f"{V1}/other/../default/ack"),
    request("a verb in capitals", target=f"{V1}/default/ACK"),
    request("an unknown operation", target=f"{V1}/default/emit"),
    raw("an address with host and scheme", f"POST http://acker{ADDRESS} HTTP/1.1", "Host: localhost",
        "Content-Type: application/json", "Content-Length: 2", body="{}"),
    raw("a fragment behind the address", f"POST {ADDRESS}#x HTTP/1.1", "Host: localhost",
        "Content-Type: application/json", "Content-Length: 2", body="{}"),
]  # fmt: skip

NAMES = [
    request("a name of 128 characters", topology=LONG),
    request("a name of 129 characters", topology=f"{LONG}n"),
    request("a name in capitals", topology="DEFAULT"),
    request("a name with a space", topology="a%20b"),
    request("a name with a line feed", topology="a%0A"),
    request("a name with a broken escape", topology="a%zz"),
    request("a name of Unicode", topology="%C3%BC"),
    request("a bad name of a batch", "batch", topology="a%20b"),
]

TOPOLOGIES = [  # an acker looks every second for what others have done: it must not matter whether it has
    *(request(f"a topology that this acker has yet to read: {verb}", verb, topology=FRESH, meanwhile=(put(),))
      for verb in VERBS),
    *(request(f"an unknown topology: {verb}", verb, topology="no-such") for verb in ("fail", "batch")),
    request("a topology that was deleted here", "init", topology="gone"),
    *(request(f"a topology that another acker has deleted: {verb}", verb, topology=FRESH,
              given=(put(),), meanwhile=(delete(),)) for verb in VERBS),
    *(request(f"a topology that another acker has changed: {verb}", verb, topology=FRESH,
              given=(put(), done(init(), topology=FRESH)), meanwhile=(put(retention_ms=50_000),))
      for verb in SOME_VERBS),
    *(request(f"a topology that is being drained: {verb}", verb, topology="draining") for verb in ("ack", *SOME_VERBS)),
    request("a topology that another acker drains: init", "init", topology=FRESH,
            given=(put(), done(init(), topology=FRESH)), meanwhile=(delete(query="?force=true"),),
            body=INIT | {"root_id": A2}),
    batch("a topology that another acker drains: batch", init(A2), ack(A2), topology=FRESH,
          given=(put(), done(init(), topology=FRESH)), meanwhile=(delete(query="?force=true"),)),
    batch("a topology that is being drained: a batch without an init", ack(), topology="draining"),
    batch("an unknown topology: no operations", topology="no-such"),
    request("a repeat on a topology that another acker has deleted", topology=FRESH, given=(put(),),
            headers=(("Idempotency-Key", "k"),), body=ACK, repeated=1, meanwhile=(delete(),)),
]  # fmt: skip

ROWS: list[Row] = [*METHODS, *PATHS, *NAMES, *TOPOLOGIES]
