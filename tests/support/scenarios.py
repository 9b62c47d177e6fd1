"""The table of docs/semantics.md, "What each order does", as data: each row runs in Python and in Redis."""

from dataclasses import dataclass, field

from acker_protocol.operations import Ack, Fail, Init, Operation, OperationState, Outcome, ResetTimeout
from acker_protocol.tree import ACKED_TOO_OFTEN_IN_WINDOW, ACKED_TOO_OFTEN_WITHOUT_WINDOW
from acker_service.topologies.config import TopologyConfig

from tests.support.model_acker import EARLY_BYTES, SHORT_REASON

PLAIN = TopologyConfig(message_timeout_ms=1_000, retention_ms=5_000)
ROOT = 0xA1
NEIGHBOUR = ROOT + PLAIN.ackers * PLAIN.buckets
"""A root in the same bucket."""
BESIDE = ROOT + PLAIN.ackers
"""A root in the same shard, and in another bucket."""
E1, E2, E3 = 0xB1, 0xB2, 0xB3


@dataclass(frozen=True)
class Wait:
    """So much time passes, then the tick comes."""

    ms: int


@dataclass(frozen=True)
class Repeat:
    """The request of an earlier step, or the one before, is sent once more, with its key."""

    of: int = -1


@dataclass(frozen=True)
class Again:
    """The request of an earlier step is sent once more, with its key; it was refused, and so it is not known."""

    of: int


@dataclass(frozen=True)
class Fill:
    """From now on the service sees that the store is full, or that it is so no more."""

    is_full: bool


@dataclass(frozen=True)
class Scenario:
    """Steps, each a message, several in one batch, or a `Wait`; the words expected; the completions expected.

    ``failures`` are those of the completions, none of which tells any if they are left out; ``dropped`` likewise.
    ``max_early`` is the number of early roots that each shard may have, ``early_max_bytes`` what they may take.
    """

    name: str
    steps: list[Operation | list[Operation] | Wait | Repeat | Again | Fill]
    words: str
    told: list[tuple[Outcome, str | None]] = field(default_factory=list)
    left: str = "finished"
    configuration: TopologyConfig = PLAIN
    max_early: int = 1_000
    early_max_bytes: int = 1 << 24
    failures: list[int] | None = None
    dropped: list[int] | None = None

    @property
    def counted(self) -> list[tuple[int | None, int]]:
        """How many edges failed and were dropped, by completion."""
        failures: list[int | None] = [None] * len(self.told) if self.failures is None else [*self.failures]
        return list(zip(failures, self.dropped or [0] * len(self.told), strict=True))


def init(*edges: int, **fields: object) -> Init:
    val = 0
    for edge in edges:
        val ^= edge
    given = {"root_id": ROOT, "spout_task": "s", "message_id": "42", "outstanding": len(edges), "ack_val": val}
    return Init(**(given | fields))  # type: ignore[arg-type]


def ack(edge: int, *children: int, **fields: object) -> Ack:
    val = edge
    for child in children:
        val ^= child
    given = {"root_id": ROOT, "ack_val": val, "outstanding": len(children) - 1, "edge_id": edge}
    return Ack(**(given | fields))  # type: ignore[arg-type]


FAIL = Fail(root_id=ROOT, reason="broken", component="bolt")
LONG_REASON = "\N{SNOWMAN}a" * 40
RESET = ResetTimeout(root_id=ROOT)
ACKED, FAILED, TIMED_OUT = (Outcome.ACKED, None), (Outcome.FAILED, "broken"), (Outcome.TIMED_OUT, None)
ACKED_TOO_OFTEN = (Outcome.TIMED_OUT, ACKED_TOO_OFTEN_WITHOUT_WINDOW)
DEDUPE = TopologyConfig(message_timeout_ms=1_000, dedupe_window_ms=1_000, retention_ms=5_000)
GRACE = TopologyConfig(message_timeout_ms=1_000, retention_ms=5_000, grace_ms=400)
"""This root's id draws nothing of it: it is due when the outage is over."""
PROGRESS = TopologyConfig(message_timeout_ms=1_000, progress_timeout_ms=300, retention_ms=5_000)
CAPPED = TopologyConfig(message_timeout_ms=1_000, retention_ms=5_000, max_spout_pending=1)
NO_ACKERS = TopologyConfig(ackers=0, retention_ms=5_000)
OTHER_SPOUT, OTHER_MESSAGE = init(E1, spout_task="t"), init(E1, message_id="43")

SCENARIOS = [
    Scenario(
        "init, acks in order to zero",
        [init(E1), ack(E1, E2, E3), ack(E2), ack(E3)],
        "pending pending pending acked",
        [ACKED],
    ),
    Scenario(
        "init, acks in another order to zero",
        [init(E1), ack(E3), ack(E2), ack(E1, E2, E3)],
        "pending pending pending acked",
        [ACKED],
    ),
    Scenario("zero edges: acked at once", [init()], "acked", [ACKED]),
    Scenario(
        "some acks early, then init, then the rest", [ack(E2), init(E1), ack(E1, E2)], "early pending acked", [ACKED]
    ),
    Scenario("all acks early, then init", [ack(E2), ack(E1, E2), init(E1)], "early early acked", [ACKED]),
    Scenario("an ack missing: pending", [ack(E2), ack(E3, E2), init(E1)], "early early pending", [], "pending"),
    Scenario(
        "early acks that cancel to zero, then init and its ack",
        [ack(E2, E3), ack(E3, E2), init(E1), ack(E1)],
        "early early pending acked",
        [ACKED],
    ),
    Scenario("early fail, then init", [FAIL, init(E1)], "early failed", [FAILED]),
    Scenario(
        "early fail and all acks early, then init: failed", [ack(E1), FAIL, init(E1)], "early early failed", [FAILED]
    ),
    Scenario("init twice, whatever the values", [init(E1), init(E2, E3), ack(E1)], "pending duplicate acked", [ACKED]),
    Scenario(
        "init for a root held by another spout task",
        [init(E1), OTHER_SPOUT, ack(E1)],
        "pending conflict acked",
        [ACKED],
    ),
    Scenario(
        "init for a root held by another message id",
        [init(E1), OTHER_MESSAGE, ack(E1)],
        "pending conflict acked",
        [ACKED],
    ),
    Scenario("init of a finished root", [init(E1), ack(E1), init(E1)], "pending acked finished", [ACKED]),
    Scenario("ack after the end", [init(E1), ack(E1), ack(E1)], "pending acked finished", [ACKED]),
    Scenario(
        "ack after the end and the retention: early, and dropped",
        [init(E1), ack(E1), Wait(10_000), ack(E1), Wait(1_001)],
        "pending acked early",
        [ACKED],
        "unknown",
    ),
    Scenario(
        "the same request repeated",
        [init(E1), ack(E1, E2), Repeat(), ack(E2)],
        "pending pending pending acked",
        [ACKED],
    ),
    Scenario(
        "the same edge acked again, dedupe on",
        [init(E1, E2), ack(E1), ack(E1), ack(E2), ack(E1)],
        "pending pending duplicate acked finished",
        [ACKED],
        configuration=DEDUPE,
    ),
    Scenario(
        "the same edge acked again early, dedupe on",
        [ack(E1), ack(E1), init(E1)],
        "early duplicate acked",
        [ACKED],
        configuration=DEDUPE,
    ),
    Scenario(
        "an ack without an edge, dedupe on: applied and counted",
        [init(E1), ack(E1, edge_id=None)],
        "pending acked",
        [ACKED],
        configuration=DEDUPE,
    ),
    Scenario(
        "the same edge acked again, dedupe off: timed out",
        [init(E1, E2), ack(E1), ack(E1), ack(E2), Wait(1_001)],
        "pending pending pending pending",
        [ACKED_TOO_OFTEN],
    ),
    Scenario(
        "the same edge acked again and another one never, dedupe off: timed out",
        [init(E1, E2), ack(E1), ack(E1), Wait(1_001)],
        "pending pending pending",
        [ACKED_TOO_OFTEN],
    ),
    Scenario(
        "the same edge acked three times, dedupe off: unbalanced, timed out",
        [init(E1, E2), ack(E1), ack(E1), ack(E1), ack(E2), Wait(1_001)],
        "pending pending pending pending pending",
        [ACKED_TOO_OFTEN],
    ),
    Scenario(
        "acks without an edge, dedupe on: applied twice, timed out",
        [init(E1, E2), ack(E1, edge_id=None), ack(E1, edge_id=None), ack(E2), Wait(1_001)],
        "pending pending pending pending",
        [(Outcome.TIMED_OUT, ACKED_TOO_OFTEN_IN_WINDOW)],
        configuration=DEDUPE,
    ),
    Scenario(
        "a child acked whose parent is not: timed out",
        [init(E1), ack(E2), Wait(1_001)],
        "pending pending",
        [ACKED_TOO_OFTEN],
    ),
    Scenario(
        "of a high edge a child acked whose parent is not: timed out",
        [init(2**63), ack(2**62), Wait(1_001)],
        "pending pending",
        [ACKED_TOO_OFTEN],
    ),
    Scenario(
        "unknown outstanding: nobody knows whether an edge was acked again",
        [init(E1, E2), ack(E1, outstanding=None), ack(E1), ack(E2), Wait(1_001)],
        "pending pending pending pending",
        [TIMED_OUT],
    ),
    Scenario(
        "fail, then ack, then fail", [init(E1), FAIL, ack(E1), FAIL], "pending failed finished finished", [FAILED]
    ),
    Scenario("complete, then fail", [init(E1), ack(E1), FAIL], "pending acked finished", [ACKED]),
    Scenario(
        "fail and the last ack in one batch: fail first",
        [init(E1), [FAIL, ack(E1)]],
        "pending failed finished",
        [FAILED],
    ),
    Scenario(
        "fail and the last ack in one batch: ack first", [init(E1), [ack(E1), FAIL]], "pending acked finished", [ACKED]
    ),
    Scenario(
        "reset timeout in flight: the deadline moves",
        [init(E1), Wait(900), RESET, Wait(900), ack(E1)],
        "pending pending acked",
        [ACKED],
    ),
    Scenario(
        "reset timeout to the root's own timeout",
        [init(E1, message_timeout_ms=200), RESET, Wait(201)],
        "pending pending",
        [TIMED_OUT],
    ),
    Scenario("reset timeout early", [ack(E1), RESET], "early unknown", [], "early"),
    Scenario("reset timeout unknown", [RESET], "unknown", [], "unknown"),
    Scenario("reset timeout finished", [init(E1), ack(E1), RESET], "pending acked finished", [ACKED]),
    Scenario("deadline passes", [init(E1), Wait(1_001), ack(E1)], "pending finished", [TIMED_OUT]),
    Scenario(
        "the deadline passes in an outage, with grace: the last ack may come after it",
        [Wait(1), init(E1), Wait(3_000), ack(E1)],
        "pending acked",
        [ACKED],
        configuration=GRACE,
    ),
    Scenario(
        "the deadline passes in an outage, with grace: timed out when that is over",
        [Wait(1), init(E1), Wait(3_000), Wait(1), ack(E1)],
        "pending finished",
        [TIMED_OUT],
        configuration=GRACE,
    ),
    Scenario(
        "early operations in an outage, with grace: dropped",
        [Wait(1), ack(E1), Wait(3_000), ack(E1)],
        "early early",
        [],
        "early",
        configuration=GRACE,
    ),
    Scenario("a deadline is never early", [init(E1), Wait(1_000), ack(E1)], "pending acked", [ACKED]),
    Scenario(
        "partial ack with a progress timeout: the idle deadline moves",
        [init(E1), Wait(250), ack(E1, E2), Wait(250), ack(E2)],
        "pending pending acked",
        [ACKED],
        configuration=PROGRESS,
    ),
    Scenario(
        "no progress: timed out before the message timeout",
        [init(E1), Wait(301)],
        "pending",
        [TIMED_OUT],
        configuration=PROGRESS,
    ),
    Scenario(
        "progress never passes the message timeout",
        [init(E1), Wait(290), ack(E1, E2), Wait(290), ack(E2, E3), Wait(290), ack(E3, E1), Wait(140)],
        "pending pending pending pending",
        [TIMED_OUT],
        configuration=PROGRESS,
    ),
    Scenario(
        "an init may refuse the topology's progress timeout",
        [init(E1, progress_timeout_ms=0), Wait(900), ack(E1)],
        "pending acked",
        [ACKED],
        configuration=PROGRESS,
    ),
    Scenario(
        "early operations and no init for one message timeout: dropped",
        [ack(E1), FAIL, Wait(1_001)],
        "early early",
        [],
        "unknown",
    ),
    Scenario(
        "root id used again after retention: a new tree",
        [init(E1), ack(E1), Wait(10_000), init(E1), ack(E1)],
        "pending acked pending acked",
        [ACKED, ACKED],
        configuration=DEDUPE,
    ),
    Scenario(
        "root id used again within the dedupe window: its edges are new, too",
        [init(E1, E2), ack(E1), ack(E2), Wait(10_000), init(E1, E2), ack(E1), ack(E2)],
        "pending pending acked pending pending acked",
        [ACKED, ACKED],
        configuration=TopologyConfig(message_timeout_ms=1_000, dedupe_window_ms=60_000, retention_ms=1_000),
    ),
    Scenario(
        "an edge acked twice is a duplicate in the next slice of the dedupe window, too",
        [init(E1, E2, message_timeout_ms=60_000), Wait(1_000), ack(E1), ack(E1), ack(E2)],
        "pending pending duplicate acked",
        [ACKED],
        configuration=DEDUPE,
    ),
    Scenario(
        "an init with a short timeout of its own brings the deadline of an early root nearer",
        [ack(E1), init(E1, E2, message_timeout_ms=100), Wait(200)],
        "early pending",
        [TIMED_OUT],
    ),
    Scenario(
        "an ack val of zero has no effect",
        [ack(E1, ack_val=0), init(E1), ack(E1, ack_val=0), ack(E1)],
        "early pending pending acked",
        [ACKED],
    ),
    Scenario("an ack val of zero leaves no state behind", [ack(E1, ack_val=0)], "early", [], "unknown"),
    Scenario(
        "zero with edges outstanding stays pending",
        [init(E1, outstanding=2), ack(E1)],
        "pending pending",
        [],
        "pending",
    ),
    Scenario(
        "once a count was left out, only the ack val decides",
        [init(E1, outstanding=None), ack(E1, E2), ack(E2)],
        "pending pending acked",
        [ACKED],
    ),
    Scenario(
        "at its deadline a root is in time, also beside one that is not",
        [init(E1, message_timeout_ms=500), init(E2, root_id=NEIGHBOUR), Wait(1_000), ack(E2, root_id=NEIGHBOUR)],
        "pending pending acked",
        [TIMED_OUT, ACKED],
    ),
    Scenario(
        "at its idle deadline a root is in time, also beside one that is not",
        [
            init(E1, message_timeout_ms=500),
            init(E2, root_id=NEIGHBOUR, progress_timeout_ms=800),
            Wait(800),
            ack(E2, root_id=NEIGHBOUR),
        ],
        "pending pending acked",
        [TIMED_OUT, ACKED],
    ),
    Scenario(
        "a repeat of a batch that refused an init says so again",
        [init(E1), [ack(E1, E2), init(E3, root_id=0xA5)], Repeat(), ack(E2)],
        "pending pending max_spout_pending pending max_spout_pending acked",
        [ACKED],
        configuration=CAPPED,
    ),
    Scenario(
        "a root that ends in a batch frees its slot for an init of the batch",
        [init(E1), [ack(E1), init(E2, root_id=0xA5), init(E3, root_id=0xA9)]],
        "pending acked pending max_spout_pending",
        [ACKED],
        configuration=CAPPED,
    ),
    Scenario(
        "a repeat of a batch in which an init was a conflict says so again",
        [init(E1), [OTHER_MESSAGE, ack(E1, E2)], Repeat(), ack(E2)],
        "pending conflict pending conflict pending acked",
        [ACKED],
    ),
    Scenario(
        "a repeat of an init whose root is pending under another message id is a conflict",
        [init(E1), ack(E1), Wait(12_000), OTHER_MESSAGE, Repeat(of=0)],
        "pending acked pending conflict",
        [ACKED],
        "pending",
    ),
    Scenario(
        "a repeated fail of a root that is pending again is a duplicate",
        [FAIL, init(E1), Wait(12_000), init(E1), Repeat(of=0)],
        "early failed pending duplicate",
        [FAILED],
        "pending",
    ),
    Scenario(
        "no ackers: acked at once, then finished",
        [init(E1), init(E1), ack(E1), FAIL, RESET],
        "acked finished finished finished finished",
        [ACKED],
        configuration=NO_ACKERS,
    ),
    Scenario("no ackers: an ack leaves nothing behind", [ack(E1)], "finished", [], "unknown", configuration=NO_ACKERS),
    Scenario(
        "an ack or a fail that would begin a tree in a full store is refused, and leaves nothing behind",
        [Fill(is_full=True), ack(E1), FAIL, [ack(E1), FAIL], Fill(is_full=False), init(E1), ack(E1)],
        "store_full store_full store_full store_full pending acked",
        [ACKED],
        configuration=DEDUPE,
    ),
    Scenario(
        "a refused ack is not remembered: it counts when it is sent again",
        [Fill(is_full=True), ack(E1), FAIL, Fill(is_full=False), Again(of=1), Again(of=2), init(E1)],
        "store_full store_full early early failed",
        [FAILED],
        configuration=DEDUPE,
    ),
    Scenario(
        "what is early or pending goes on in a full store",
        [ack(E2), init(E3, root_id=BESIDE), Fill(is_full=True), ack(E3, E2), ack(E3, root_id=BESIDE), FAIL, RESET],
        "early pending early acked early unknown",
        [ACKED],
        "early",
    ),
    Scenario(
        "an init of an early root is refused in a full store, and its acks stay",
        [ack(E1), Fill(is_full=True), init(E1), Fill(is_full=False), init(E1)],
        "early store_full acked",
        [ACKED],
    ),
    Scenario(
        "an edge of a pending root that is acked twice in a full store counts twice, and the tree times out",
        [init(E1), Fill(is_full=True), ack(E1, E2), ack(E1, E2), Wait(1_001)],
        "pending pending pending",
        [TIMED_OUT],
        configuration=DEDUPE,
    ),
    Scenario(
        "an edge that was acked before the store was full is a duplicate in the full store",
        [init(E1), ack(E1, E2), Fill(is_full=True), ack(E1, E2), ack(E2)],
        "pending pending duplicate acked",
        [ACKED],
        configuration=DEDUPE,
    ),
    Scenario(
        "an edge of a pending root counts twice if it was acked in a full store, and is remembered from then on",
        [init(E1, E2), Fill(is_full=True), ack(E1), Fill(is_full=False), ack(E1), ack(E1), ack(E2)],
        "pending pending pending duplicate pending",
        [],
        "pending",
        configuration=DEDUPE,
    ),
    Scenario(
        "an edge of an early root is remembered in a full store, too",
        [ack(E1), Fill(is_full=True), ack(E2), ack(E2), Fill(is_full=False), init(E1, E2)],
        "early early duplicate acked",
        [ACKED],
        configuration=DEDUPE,
    ),
    Scenario(
        "a root that fails in a full store is told with a short reason",
        [init(E1), Fill(is_full=True), Fail(root_id=ROOT, reason=LONG_REASON)],
        "pending failed",
        [(Outcome.FAILED, LONG_REASON[:SHORT_REASON])],
    ),
    Scenario(
        "an early root that fails in a full store keeps a short reason",
        [ack(E1), Fill(is_full=True), Fail(root_id=ROOT, reason=LONG_REASON), Fill(is_full=False), init(E1)],
        "early early failed",
        [(Outcome.FAILED, LONG_REASON[:SHORT_REASON])],
    ),
    Scenario(
        "an operation without effect on an unknown root is answered as ever in a full store",
        [Fill(is_full=True), ack(E1, ack_val=0), RESET],
        "early unknown",
        [],
        "unknown",
    ),
    Scenario(
        "beyond the bound on early roots an ack or a fail of an unknown root is refused, an init is not",
        [ack(E1), ack(E1, root_id=BESIDE), Fail(root_id=BESIDE), init(E2, root_id=BESIDE), ack(E2, root_id=BESIDE)],
        "early store_full store_full pending acked",
        [ACKED],
        "early",
        max_early=1,
    ),
    Scenario(
        "an early root leaves its place to another when its init comes",
        [ack(E1, root_id=BESIDE), init(E1, E2, root_id=BESIDE), ack(E1), init(E1)],
        "early pending early acked",
        [ACKED],
        max_early=1,
    ),
    Scenario(
        "an early root leaves its place to another when it is dropped",
        [ack(E1, root_id=BESIDE), ack(E1), Wait(1_001), ack(E1)],
        "early store_full early",
        [],
        "early",
        max_early=1,
    ),
    Scenario(
        "the bound on early roots holds within a batch, and a root that begins and ends there takes no place",
        [[ack(E1), init(E1), ack(E1, root_id=BESIDE), ack(E1, root_id=BESIDE + 4)]],
        "early acked early store_full",
        [ACKED],
        max_early=1,
    ),
    Scenario(
        "beyond the bytes that early roots may take an early root refuses a new edge, and all else goes on",
        [ack(E1), ack(E2), ack(E1), ack(E3, ack_val=0), ack(E3, edge_id=None), RESET, init(E1, E3, E2), ack(E2)],
        "early store_full duplicate early early unknown pending acked",
        [ACKED],
        configuration=DEDUPE,
        early_max_bytes=EARLY_BYTES + 1,
    ),
    Scenario(
        "also in a full store an early root refuses an edge that there is no room to remember",
        [ack(E1), Fill(is_full=True), ack(E2), Fill(is_full=False), init(E1, E2)],
        "early store_full pending",
        [],
        "pending",
        configuration=DEDUPE,
        early_max_bytes=EARLY_BYTES + 1,
    ),
    Scenario("complete latency counts from the first message", [ack(E1), Wait(500), init(E1)], "early acked", [ACKED]),
]


def words_of(scenario: Scenario) -> list[OperationState]:
    """The words expected of a scenario."""
    return [OperationState(word) for word in scenario.words.split()]
