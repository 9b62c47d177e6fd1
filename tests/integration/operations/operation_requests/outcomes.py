"""Rows about what operations come to: every state, refusals, limits of the acker."""

from tests.integration.operations.operation_requests.writing import (
    A1,
    A2,
    A3,
    ACK,
    E1,
    E2,
    FAIL,
    INIT,
    SOME_VERBS,
    V1,
    ack,
    batch,
    done,
    fail,
    init,
    packed,
    packed_request,
    put,
    request,
    reset,
)
from tests.support.asking import FRESH, Row, Step

TWO_EDGES = done(init(edges=[E1, E2]))
FINISHED = done(init(), ack())
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

STATES = [
    request("an init with all its fields", "init", INIT | {
        "message_id": "\u00fcn\u00ef \u2603", "message_timeout_ms": 60_000, "progress_timeout_ms": 0, "trace": True,
        "component": "read", "traceparent": TRACEPARENT}),
    request("an init of edges that someone has folded", "init", {"root_id": A1, "spout_task": "orders", "ack_val": E1}),
    request("an init without an edge", "init", INIT | {"edges": []}),
    request("an init of a pending root", "init", given=(done(init()),)),
    request("an init of a pending root with another message id", "init", INIT | {"message_id": "2"},
            given=(done(init()),)),
    request("an init of a finished root", "init", given=(FINISHED,)),
    request("an init after its acks", "init", given=(done(ack()),)),
    request("an init after a fail", "init", given=(done(fail()),)),
    request("an init of a new spout task", "init", topology=FRESH, given=(put(),)),
    request("an ack of a root with two edges", given=(TWO_EDGES,)),
    request("an ack with children", body=ACK | {"children": [E2], "component": "split"}, given=(done(init()),)),
    request("the last ack", given=(done(init()),)),
    request("an ack that someone has folded", body={"root_id": A1, "ack_val": E1, "outstanding": -1},
            given=(TWO_EDGES,)),
    request("an early ack", body=ACK | {"component": "count"}),
    request("a fail of a pending root", "fail", FAIL | {"reason": "no \u2603", "component": "count"},
            given=(done(init()),)),
    request("a fail of a finished root", "fail", given=(FINISHED,)),
    request("an early fail", "fail"),
    request("a reset of a pending root", "reset-timeout", given=(done(init()),)),
    request("a reset of an unknown root", "reset-timeout", {"root_id": A1, "component": "count"}),
    request("an edge that is acked twice", topology="deduped",
            given=(done(init(edges=[E1, E2]), ack(), topology="deduped"),)),
    request("an edge that is acked twice without a dedupe window",
            given=(done(init(edges=[E1, E2]), ack()),)),
    request("a topology without ackers", "init", topology="untracked"),
    request("a topology of one shard", topology="one"),
    request("a topology that traces all", "init", topology="traced"),
]  # fmt: skip

REFUSALS = [
    request("an init over the cap", "init", topology="capped"),
    request("an ack under a cap", topology="capped"),
    request("an init under a cap", "init", INIT | {"spout_task": "payments"}, topology=FRESH,
            given=(put(max_spout_pending=5),)),
    batch("a batch with inits over the cap", ack(A2), init(), ack(), topology="capped"),
    batch("a batch with inits over the cap that wants the exceptions", ack(A2), init(), ack(), topology="capped",
          query="?results=exceptions"),
    packed_request("a packed batch with inits over the cap that wants the exceptions", packed(ack(A2), init(), ack()),
                   topology="capped", query="?results=exceptions"),
    batch("a batch that is refused as a whole", init(), init(A2), topology="capped"),
    batch("a batch with a conflict", init(), init(message_id="2"), ack()),
    batch("a batch with a conflict that wants the exceptions", init(), init(message_id="2"), ack(),
          query="?results=exceptions"),
    request("an init beyond the dedupe window", "init", INIT | {"message_timeout_ms": 60_001}, topology="deduped"),
    batch("a batch with an init beyond the dedupe window", ack(A2), init(message_timeout_ms=60_001),
          topology="deduped"),
    request("an ack that would begin a root too many", acker="narrow", topology="crowded"),
    request("a fail that would begin a root too many", "fail", acker="narrow", topology="crowded"),
    batch("a batch that would begin a root too many", ack(), acker="narrow", topology="crowded"),
    batch("a batch that would begin a root too many, and wants the exceptions", init(A2), ack(), acker="narrow",
          topology="crowded", query="?results=exceptions"),
    request("an init into a full mailbox", "init", acker="narrow", topology="stuffed",
            given=(Step(path=f"{V1}/stuffed/init", document=INIT | {"root_id": A2}, until=429),)),
    batch("a batch with an init into a full mailbox", init(), reset(), acker="narrow", topology="stuffed",
          given=(Step(path=f"{V1}/stuffed/init", document=INIT | {"root_id": A2}, until=429),)),
]  # fmt: skip

IN_FLIGHT = [
    *(request(f"more requests than may be in flight: {verb}", verb, acker="narrow", held=f"{V1}/default/ack")
      for verb in SOME_VERBS),
    request("more requests than may be in flight: a wrong method", method="GET", acker="narrow",
            held=f"{V1}/default/ack"),
    request("more requests than may be in flight: a wrong type", kind=None, acker="narrow", held=f"{V1}/default/ack"),
    request("more requests than may be in flight: an unknown topology", topology="no-such", acker="narrow",
            held=f"{V1}/default/ack"),
]  # fmt: skip

WHOLE_BATCHES = [
    batch("one operation", ack()),
    batch("operations on one root in their order", init(), reset(), ack(), ack(), fail(), reset(), init()),
    batch("operations on several roots", init(), init(A2), ack(A3), ack(), fail(A2), reset(A3)),
    batch("operations on several roots of one shard", init(), init(A2), ack(A3), ack(), fail(A2), reset(A3),
          topology="one"),
    batch("an operation with all fields of JSON", init(message_id="\u00fcn\u00ef", traceparent=TRACEPARENT, trace=True,
                                                      progress_timeout_ms=100, message_timeout_ms=100)),
    batch("operations with a dedupe window", init(edges=[E1, E2]), ack(), ack(), topology="deduped"),
    batch("inits of new spout tasks", init(), init(A2, spout_task="payments"), ack(A3), topology=FRESH, given=(put(),)),
    packed_request("packed inits of new spout tasks", packed(init(), init(A2, spout_task="payments"), ack(A3)),
                   topology=FRESH, given=(put(),)),
    batch("all accepted, and the exceptions wanted", init(), ack(), query="?results=exceptions"),
]  # fmt: skip

ROWS: list[Row] = [*STATES, *REFUSALS, *IN_FLIGHT, *WHOLE_BATCHES]
