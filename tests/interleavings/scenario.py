"""What may happen to one root: its messages, the programs that work on them, and what of the protocol holds.

A *program* is what one run of a task does: take messages from the queue, send others, call the acker. It goes on step
by step, and anything else goes on in between. A task that may do its work in several ways is several programs.
"""

from dataclasses import dataclass
from functools import reduce
from operator import xor

from acker_protocol.ids import SPOUT_EDGE, derive_edge
from acker_protocol.operations import Ack, EndOn, Fail, Init, Operation
from acker_protocol.states import TopologyRules

ROOT, OTHER_ROOT = 0xA1, 0xA2
"""The root whose interleavings are tried, and another of its spout task, which may hold the only slot."""

RULES = TopologyRules(message_timeout_ms=1_000, dedupe_window_ms=1_000_000_000, retention_ms=60_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """A message is put into the queue."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request to the acker, sent until it is answered. ``does`` is the work that is done just before it.

    A request that is refused is sent again with another key, ``tries`` times in all; the last of them waits until it
    is not refused.
    """

    operations: tuple[Operation, ...]
    does: str | None = None
    tries: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a run does. It takes all of its messages at once, and may take them ``runs`` times (None: no limit)."""

    name: str
    takes: tuple[str, ...] = ()
    steps: tuple[Send | Call, ...] = ()
    runs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """What of the protocol holds. The defaults are Acker's, every other value is a known mistake.

    ``remembers_requests``: a repeated request has no effect. ``tells_at_once``: a completion is in the mailbox in the
    step that ends its root. ``handles_first``: a reader handles a completion before it releases it.
    ``takes_slots_at_once``: a free slot is looked for in the step that takes it. ``applies_at_once``: a replica reads a
    root and writes it in one step, so that no other replica comes in between. ``settles_what_it_posted``: a delivery
    worker removes the completions that it posted, and not all that have come since.
    """

    remembers_requests: bool = True
    tells_at_once: bool = True
    handles_first: bool = True
    takes_slots_at_once: bool = True
    applies_at_once: bool = True
    settles_what_it_posted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One root and all that may happen to it.

    ``work`` has to be done before the root may end as acked. ``faults`` is how often anything may go wrong: a run
    crashes and its messages come again, a message is delivered twice, a copy of a request comes late, a reader, the
    service or a delivery worker crashes, a lease lapses under a worker that lives, a post is not answered. Without them
    a request that gets lost changes nothing: its caller sends it again. ``expires``: time may pass, beyond the deadline
    and then beyond the retention. ``slots`` is how many roots may be pending (None: no limit).

    Several replicas share the store, and a request is one step there, whichever of them serves it: one that is sent
    again to another replica, while the first one still works on it, is a copy that comes late. ``workers`` is how many
    replicas deliver completions to a callback, in place of ``readers``, each under a lease.
    """

    name: str
    programs: tuple[Program, ...]
    work: frozenset[str]
    rules: TopologyRules = RULES
    design: Design = Design()
    readers: int = 1
    workers: int = 0
    slots: int | None = None
    faults: int = 1
    expires: bool = False

    @property
    def ends_on_all(self) -> bool:
        """Whether the root ends when all of its edges have ended."""
        return self.rules.end_on is EndOn.ALL_ENDED

    @property
    def messages(self) -> list[str]:
        """All messages by name; the first is the one that the spout sends."""
        return sorted({message for program in self.programs for message in program.takes})


def edge(parent: int, name: str) -> int:
    """Return the derived edge of a child."""
    return derive_edge(root_id=ROOT, parent_edge=parent, component="component", name=name)


A = edge(SPOUT_EDGE, "a")


def spout(root: int = ROOT, own: int = A, tries: int = 1) -> Program:
    """Return a spout task that begins a root with one edge; its message is in the queue already."""
    init = Init(root_id=root, spout_task="shop", message_id=str(root), ack_val=own, outstanding=1)
    return Program(name="spout", steps=(Call(operations=(init,), tries=tries),), runs=1)


def acked(own: int, *children: int) -> Ack:
    """Return the ack of an edge, with its children."""
    return Ack(root_id=ROOT, ack_val=reduce(xor, children, own), outstanding=len(children) - 1, edge_id=own)


def bolt(name: str, own: int, **children: int) -> Program:
    """Return a bolt that takes the message of its name, sends children by their names, and acks."""
    call = Call(operations=(acked(own, *children.values()),), does=name)
    return Program(name=name, takes=(name,), steps=(*sends(*children), call))


def sends(*messages: str) -> tuple[Send, ...]:
    """Return the steps that send messages, in this order."""
    return tuple(Send(message=message) for message in messages)


def failing(name: str, own: int, **children: int) -> Program:
    """Return a bolt that fails its message, after it has sent the children."""
    ack = acked(own, *children.values())
    fail = Fail(root_id=ROOT, ack_val=ack.ack_val, outstanding=ack.outstanding, edge_id=own)
    return Program(name=f"{name} fails", takes=(name,), steps=(*sends(*children), Call(operations=(fail,), does=name)))
