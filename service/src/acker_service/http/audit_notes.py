"""Notes in the audit trail what a request did."""

from fastapi import Request

from acker_service.http.request_id import request_id
from acker_service.monitoring.audit import Act, AuditTrail, Entry


async def note(
    trail: AuditTrail,
    request: Request,
    act: Act,
    *,
    topology: str,
    spout_task: str | None = None,
    root_id: str | None = None,
    count: int | None = None,
) -> None:
    """Note an act that has succeeded, with the name of the request's key and the request's id. Never raises.

    An act that ended nothing is not noted: whoever repeats one would push out the acts of others.
    """
    entry = Entry(
        act=act,
        topology=topology,
        spout_task=spout_task,
        root_id=root_id,
        count=count,
        key=request.state.key.name,
        request_id=request_id(request.scope),
    )
    await trail.note(entry)
