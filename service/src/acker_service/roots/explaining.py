"""Explains roots: reads their traces and builds their trees."""

from collections.abc import Sequence
from dataclasses import dataclass

from acker_protocol.operations import Outcome

from acker_service.redis import functions
from acker_service.redis.functions.roots import RootState
from acker_service.redis.functions.traces import EntryKind, TraceEntry, TraceReply
from acker_service.roots.edges import Edge, build_tree, outstanding_of, xor_of
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import SpoutRegistry
from acker_service.topologies.topology import Topology

MAX_EDGES = 10_000
"""The most edges that one answer has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What is known of a root, and its edges if it is traced; those of one that is not traced are unknown.

    ``truncated``: edges or acks are missing. ``outcome`` is that of a finished root, None if it is not known any more;
    ``ended_ms`` is when it ended, None where its trace does not tell.
    """

    root_id: int
    state: RootState
    outcome: Outcome | None
    traced: bool
    spout_task: str | None
    message_id: str | None
    last_component: str | None
    outstanding: int | None
    edges: Sequence[Edge]
    truncated: bool
    ended_ms: int | None


class RootExplainer:
    """Explains roots."""

    def __init__(self, shards: Shards, spouts: SpoutRegistry) -> None:
        self._shards = shards
        self._spouts = spouts

    async def explain(self, topology: Topology, root_id: int) -> Explanation:
        """Explain one root; its state is unknown if nothing is known of it."""
        layout = topology.layout
        call = functions.traces.read_trace(
            settings=topology.settings, bucket=layout.bucket_of(root_id), root_id=root_id
        )
        topology, reply = await self._shards.call(topology, layout.shard_of(root_id), call)
        index, spout_task = _spout_index(reply), None
        if index is not None:
            spout_task = (await self._spouts.names(topology, {index}))[index] or None  # empty once it is deleted
        return explain(reply, root_id, spout_task)


def explain(reply: TraceReply, root_id: int, spout_task: str | None) -> Explanation:
    """Explain a root by what Redis keeps of it; a trace stays longer than the outcome."""
    entries, record = reply.entries, reply.root.record
    tree = build_tree(entries, maker=spout_task)
    init, end = _first(entries, EntryKind.INIT), _first(entries, EntryKind.END)
    is_over = record is None
    is_consistent = record is None or not entries or xor_of(entries) == record.ack_val
    return Explanation(
        root_id=root_id,
        state=RootState.FINISHED if is_over and entries else reply.root.state,
        outcome=(reply.root.outcome or (end.outcome if end else None)) if is_over else None,
        traced=bool(entries),
        spout_task=spout_task,
        message_id=record.message_id if record else init.text if init else None,
        last_component=record.last_component if record else _last_component(entries),
        outstanding=record.outstanding if record else outstanding_of(entries) if entries else None,
        edges=tree.edges[:MAX_EDGES],
        truncated=bool(entries)
        and (reply.is_cut or not is_consistent or not tree.is_whole or len(tree.edges) > MAX_EDGES),
        ended_ms=end.at_ms if end and is_over else None,
    )


def _spout_index(reply: TraceReply) -> int | None:
    if reply.root.record is not None:
        return reply.root.record.spout_index if reply.root.state is RootState.PENDING else None
    init = _first(reply.entries, EntryKind.INIT)
    return init.spout_index if init else None


def _first(entries: Sequence[TraceEntry], kind: EntryKind) -> TraceEntry | None:
    return next((entry for entry in entries if entry.kind is kind), None)


def _last_component(entries: Sequence[TraceEntry]) -> str | None:
    """Return the component of the last ack that names one."""
    ended = (EntryKind.ACK, EntryKind.FAILED_EDGE)
    acks = (entry.component for entry in reversed(entries) if entry.kind in ended)
    return next((component for component in acks if component), None)
