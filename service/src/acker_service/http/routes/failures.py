"""The route that lists failed and timed-out roots."""

from typing import Annotated, Any, Literal

from acker_protocol.errors import InvalidRequest
from acker_protocol.ids import format_id
from acker_protocol.operations import Outcome
from fastapi import APIRouter, Query, Request

from acker_service.http.auth import needs
from acker_service.http.head import Router, end_head, refresh_for_head
from acker_service.http.parameters import After, Limit, Milliseconds, Name, TextPart, TopologyName
from acker_service.redis.functions.failures import FailureRecord
from acker_service.roots.failures import FailureFilter, FailureReader, decode_positions, encode_positions
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.topology import Topology

FailureOutcome = Annotated[Literal["failed", "timed_out"] | None, Query()]
"""The outcomes that are failures."""


def make_router(*, registry: TopologyRegistry, failures: FailureReader) -> APIRouter:
    """Build the route of the failures."""
    router = Router(prefix="/v1/topologies/{topology}/failures", tags=["roots"])

    @router.get("", dependencies=[needs("ack")])
    async def list_failures(
        request: Request,
        topology: TopologyName,
        after: After = None,
        limit: Limit = 100,
        outcome: FailureOutcome = None,
        spout_task: Name = None,
        component: Name = None,
        reason: TextPart = None,
        text: TextPart = None,
        from_ms: Milliseconds | None = None,
        to_ms: Milliseconds | None = None,
    ) -> dict[str, Any]:
        """List failed and timed-out roots, newest first. A page may be short; the last one has no cursor."""
        await refresh_for_head(request, registry, topology)
        wanted = FailureFilter(
            outcome=None if outcome is None else Outcome(outcome),
            spout_task=spout_task,
            component=component,
            reason=reason,
            text=text,
            from_ms=from_ms,
            to_ms=to_ms,
        )
        if from_ms is not None and to_ms is not None and from_ms > to_ms:
            raise InvalidRequest(f"from_ms {from_ms} is after to_ms {to_ms}: no failure can match")

        async def work(found: Topology) -> dict[str, Any]:
            positions = decode_positions(after, found)
            end_head(request)
            page = await failures.page(found, positions, wanted, limit=limit)
            return {
                "failures": [_show(failure, page.names) for failure in page.failures],
                "cursor": encode_positions(page.positions, found),
                "scanned": page.scanned,
            }

        return await registry.with_current(topology, work)

    return router


def _show(failure: FailureRecord, names: dict[int, str]) -> dict[str, Any]:
    document = {
        "root_id": format_id(failure.root_id),
        "message_id": failure.message_id,
        "spout_task": names.get(failure.spout_index) or None,
        "outcome": failure.outcome.value,
        "reason": failure.reason,
        "component": failure.component,
        "at_ms": failure.at_ms,
    }
    return document if failure.failures is None else document | {"failures": failure.failures}
