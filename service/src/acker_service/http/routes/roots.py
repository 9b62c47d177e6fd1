"""Routes of the roots: list them, read or await one, read the states of many, fail one by hand."""

import asyncio
from typing import Annotated, Any

from acker_protocol.errors import InvalidRequest, UnknownRoot
from acker_protocol.ids import format_id, parse_id
from acker_protocol.operations import OperationState
from acker_protocol.wire.fields import MESSAGE_ID_BYTES, reason, root_ids
from acker_protocol.wire.operations import check
from fastapi import APIRouter, Query, Request

from acker_service.http.answers import show_result
from acker_service.http.audit_notes import note
from acker_service.http.auth import needs
from acker_service.http.documents import read_json, read_json_if_any
from acker_service.http.head import Router, end_head, is_head, refresh_for_head
from acker_service.http.long_poll import LongPoll
from acker_service.http.parameters import NAME, Limit, Milliseconds, RootId, TextPart, TopologyName, WaitMs
from acker_service.monitoring.audit import Act, AuditTrail
from acker_service.redis.functions.failures import FailureRecord
from acker_service.redis.functions.roots import RootFilter, RootState, StateReply
from acker_service.roots.edges import Edge
from acker_service.roots.explaining import Explanation, RootExplainer
from acker_service.roots.notifier import RootNotifier
from acker_service.roots.pending import PendingRoots, decode_positions, encode_positions
from acker_service.roots.reading import RootReader, RootView
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.spouts import SpoutRegistry
from acker_service.topologies.topology import Topology

FORCED = "forced"
"""The prefix of the reason of a fail by hand."""

SpoutTaskFilter = Annotated[str | None, Query(pattern=NAME)]
MessageIdFilter = Annotated[str | None, Query(max_length=MESSAGE_ID_BYTES)]
ListCursor = Annotated[str | None, Query()]

_STATES = {RootState.EARLY: "early", RootState.PENDING: "pending", RootState.FINISHED: "finished"}
_ALL_STATES = _STATES | {RootState.UNKNOWN: "unknown"}


def make_router(
    *,
    registry: TopologyRegistry,
    roots: RootReader,
    explainer: RootExplainer,
    pending_roots: PendingRoots,
    spouts: SpoutRegistry,
    notifier: RootNotifier,
    trail: AuditTrail,
    stopping: asyncio.Event,
    max_body_bytes: int,
) -> APIRouter:
    """Build the routes of the roots; setting ``stopping`` ends all waits."""
    router = Router(prefix="/v1/topologies/{topology}/roots", tags=["roots"])
    _add_list(router, registry=registry, pending_roots=pending_roots, spouts=spouts)
    _add_get(router, registry=registry, roots=roots, notifier=notifier, stopping=stopping)
    _add_tree(router, registry=registry, roots=roots, explainer=explainer)
    _add_states(router, registry=registry, roots=roots, max_body_bytes=max_body_bytes)
    _add_fail(router, registry=registry, roots=roots, trail=trail, max_body_bytes=max_body_bytes)
    return router


def _add_list(
    router: APIRouter, *, registry: TopologyRegistry, pending_roots: PendingRoots, spouts: SpoutRegistry
) -> None:
    """Add the route that lists pending roots."""

    @router.get("", dependencies=[needs("ack")])
    async def list_roots(
        request: Request,
        topology: TopologyName,
        *,
        older_than_ms: Milliseconds = 0,
        no_ack_for_ms: Milliseconds = 0,
        spout_task: SpoutTaskFilter = None,
        message_id: MessageIdFilter = None,
        text: TextPart = None,
        limit: Limit = 100,
        cursor: ListCursor = None,
    ) -> dict[str, Any]:
        """List pending roots, about nearest deadline first. A page may be short; the last one has no cursor."""
        await refresh_for_head(request, registry, topology)

        async def work(found: Topology) -> dict[str, Any]:
            positions = decode_positions(cursor, found)
            wanted = RootFilter(
                older_than_ms=older_than_ms,
                no_ack_for_ms=no_ack_for_ms,
                spout_index=(await spouts.get(found, spout_task)).index if spout_task else None,
                message_id=message_id,
                text=text,
            )
            end_head(request)
            page = await pending_roots.page(found, positions, wanted, limit=limit)
            following = encode_positions(page.positions, found)
            return {"roots": [_show(root) for root in page.roots], "cursor": following, "scanned": page.scanned}

        return await registry.with_current(topology, work)


def _add_get(
    router: APIRouter,
    *,
    registry: TopologyRegistry,
    roots: RootReader,
    notifier: RootNotifier,
    stopping: asyncio.Event,
) -> None:
    """Add the route that reads or awaits a root."""

    @router.get("/{root_id:one_root}", dependencies=[needs("ack")])
    async def get_root(
        request: Request, topology: TopologyName, root_id: RootId, wait_ms: WaitMs = 0
    ) -> dict[str, Any]:
        """Return a root, or wait until it is finished; only the outcome of a finished root is kept."""
        number = _parse(root_id)

        async def read() -> RootView:
            return await registry.with_current(topology, lambda found: roots.read(found, number))

        if is_head(request) or not wait_ms:
            return _show(await read())
        with notifier.waiting(await registry.get(topology), number) as waiter:
            wait = LongPoll(request=request, stopping=stopping, seconds=wait_ms / 1000)
            return _show(await wait.until(_is_over, read, waiter))


def _add_tree(router: APIRouter, *, registry: TopologyRegistry, roots: RootReader, explainer: RootExplainer) -> None:
    """Add the route that explains a root."""

    @router.get("/{root_id}/tree", dependencies=[needs("ack")])
    async def get_tree(request: Request, topology: TopologyName, root_id: RootId) -> dict[str, Any]:
        """Return the tree of a root if it is traced, else only what is known without a trace."""
        number = _parse(root_id)
        if is_head(request):
            root = await registry.with_current(topology, lambda found: roots.read(found, number))
            if root.state is not RootState.UNKNOWN:  # an unknown one may have left a trace
                end_head(request)
        return _show_tree(await registry.with_current(topology, lambda found: explainer.explain(found, number)))


def _add_states(router: APIRouter, *, registry: TopologyRegistry, roots: RootReader, max_body_bytes: int) -> None:
    """Add the route that reads the states of many roots."""

    @router.post("/states", dependencies=[needs("ack")])
    async def read_states(topology: TopologyName, request: Request) -> dict[str, Any]:
        """Return the states of many roots, in the order in which they are named; one that is not known is `unknown`."""
        values = check(await read_json(request, max_bytes=max_body_bytes), {"root_ids": root_ids})
        if "root_ids" not in values:
            raise InvalidRequest("root_ids is missing")
        numbers = values["root_ids"]
        states = await registry.with_current(topology, lambda found: roots.read_states(found, numbers))
        return {"roots": [_show_state(*each) for each in zip(numbers, states, strict=True)]}


def _add_fail(
    router: APIRouter, *, registry: TopologyRegistry, roots: RootReader, trail: AuditTrail, max_body_bytes: int
) -> None:
    """Add the route by which an operator fails a root."""

    @router.post("/{root_id}/fail", dependencies=[needs("admin")])
    async def fail_root(topology: TopologyName, root_id: RootId, request: Request) -> dict[str, Any]:
        """Fail a root by hand; the reason in its completion begins with `forced`."""
        values = check(await read_json_if_any(request, max_bytes=max_body_bytes), {"reason": reason})
        full_reason = f"{FORCED}: {values['reason']}" if "reason" in values else FORCED
        number = _parse(root_id)
        result = await registry.with_current(topology, lambda found: roots.force_fail(found, number, full_reason))
        if result is None:
            raise _unknown(number)
        if result.state is not OperationState.FINISHED:
            await note(trail, request, Act.ROOT_FAILED, topology=topology, root_id=root_id, count=1)
        return show_result(number, result)


def _parse(root_id: str) -> int:
    try:
        return parse_id(root_id)
    except ValueError as error:
        raise InvalidRequest(f"root_id {error}") from None


def _unknown(root_id: int) -> UnknownRoot:
    return UnknownRoot(f"root {format_id(root_id)} is neither pending nor early nor remembered")


def _is_over(root: RootView) -> bool:
    return root.is_finished


def _show_failure(failure: FailureRecord | None) -> dict[str, Any]:
    if failure is None:
        return {"reason": None, "component": None, "at_ms": None}
    document = {"reason": failure.reason, "component": failure.component, "at_ms": failure.at_ms}
    return document if failure.failures is None else document | {"failures": failure.failures}


def _show(root: RootView) -> dict[str, Any]:
    if root.state is RootState.UNKNOWN:
        raise _unknown(root.root_id)
    state = {"root_id": format_id(root.root_id), "state": _STATES[root.state]}
    if root.outcome is not None:
        return state | {"outcome": root.outcome.value} | _show_failure(root.failure)
    return state | {
        "spout_task": root.spout_task,
        "message_id": root.message_id,
        "ack_val": format_id(root.ack_val),
        "outstanding": root.outstanding,
        "age_ms": max(0, root.now_ms - root.started_ms),
        "deadline_at_ms": root.due_ms,
        "last_ack_at_ms": root.last_ack_ms,
        "last_component": root.last_component,
        "acks": root.acks,
    }


def _show_state(root_id: int, reply: StateReply) -> dict[str, Any]:
    state = {"root_id": format_id(root_id), "state": _ALL_STATES[reply.state]}
    return state if reply.outcome is None else state | {"outcome": reply.outcome.value}


def _show_tree(root: Explanation) -> dict[str, Any]:
    if root.state is RootState.UNKNOWN:
        raise _unknown(root.root_id)
    return {
        "root_id": format_id(root.root_id),
        "state": _STATES[root.state],
        "outcome": root.outcome and root.outcome.value,
        "traced": root.traced,
        "spout_task": root.spout_task,
        "message_id": root.message_id,
        "last_component": root.last_component,
        "outstanding": root.outstanding,
        "ended_at_ms": root.ended_ms,
        "edges": [_show_edge(edge) for edge in root.edges],
        "truncated": root.truncated,
    }


def _show_edge(edge: Edge) -> dict[str, Any]:
    return {
        "edge_id": format_id(edge.edge_id),
        "parent": None if edge.parent is None else format_id(edge.parent),
        "component": edge.component,
        "state": edge.state.value,
        "since_at_ms": edge.since_ms,
        "sent_at_ms": edge.sent_ms,
        "ended_by": edge.ended_by,
    }
