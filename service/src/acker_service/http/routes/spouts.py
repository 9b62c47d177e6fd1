"""Routes of the spout tasks."""

from collections.abc import Callable
from functools import partial
from typing import Any

from acker_protocol.signature import make_secret
from acker_protocol.wire.fields import boolean
from acker_protocol.wire.operations import check
from fastapi import APIRouter, Request, Response

from acker_service.http.audit_notes import note
from acker_service.http.auth import needs, require
from acker_service.http.documents import read_json_if_any
from acker_service.http.head import Router, end_head, is_head, refresh_for_head
from acker_service.http.keys import Scope
from acker_service.http.parameters import Discard, SpoutTask, TopologyName
from acker_service.monitoring.audit import Act, AuditTrail
from acker_service.topologies.callback import (
    Callback,
    PubSub,
    RegisteredCallback,
    Webhook,
    generated_secret,
    read_address,
    read_callback,
    register_callback,
)
from acker_service.topologies.deletion import DeleteMode, SpoutDeleter
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.spout_status import SpoutStatus, SpoutStatusReader
from acker_service.topologies.spouts import Callbacks, Spout, SpoutRegistry
from acker_service.topologies.stats import SpoutCounts, StatsReader
from acker_service.topologies.topology import Topology

HostDenial = Callable[[str], str | None]
"""Returns the kind of the address in the host of a webhook, if the acker sends nothing there; else None."""


def make_router(
    *,
    registry: TopologyRegistry,
    spouts: SpoutRegistry,
    stats: StatsReader,
    status_reader: SpoutStatusReader,
    callbacks: Callbacks,
    deleter: SpoutDeleter,
    trail: AuditTrail,
    max_body_bytes: int,
    pubsub_allowed: bool,
    host_denial: HostDenial,
) -> APIRouter:
    """Build the routes of the spout tasks; ``pubsub_allowed`` is whether a subscriber can reach this store."""
    as_callback = partial(_callback, pubsub_allowed=pubsub_allowed, host_denial=host_denial)
    router = Router(prefix="/v1/topologies/{topology}/spouts", tags=["spout tasks"])
    _add_reading(router, registry=registry, spouts=spouts, stats=stats, status_reader=status_reader)

    @router.put("/{spout_task}", dependencies=[needs("spout")])
    async def put_spout(
        topology: TopologyName, spout_task: SpoutTask, request: Request, response: Response
    ) -> dict[str, Any]:
        """Make a spout task (201), or change it (200): fields left out keep their value."""
        document = await read_json_if_any(request, max_bytes=max_body_bytes)
        values = check(document, {"callback": as_callback, "ephemeral": boolean})
        ephemeral = values.get("ephemeral", False if "ephemeral" in document else None)
        spout, is_new = await spouts.create_or_update(await registry.get(topology), spout_task, ephemeral=ephemeral)
        response.status_code = 201 if is_new else 200
        secret = None
        if "callback" in document:
            before, spout, secret = await _set_callback(callbacks, topology, spout_task, values.get("callback"))
            if spout.callback != before.callback:
                await note(trail, request, Act.CALLBACK_CHANGED, topology=topology, spout_task=spout_task)
        found = await registry.get(topology)
        [status] = await status_reader.read(found, [spout])
        return _show(spout, status, await stats.read(found), secret)

    _add_deletion(router, registry, deleter, trail)
    return router


def _add_reading(
    router: APIRouter,
    *,
    registry: TopologyRegistry,
    spouts: SpoutRegistry,
    stats: StatsReader,
    status_reader: SpoutStatusReader,
) -> None:
    """Add the routes that list the spout tasks and read one."""

    @router.get("", dependencies=[needs("spout")])
    async def list_spouts(topology: TopologyName, request: Request) -> dict[str, Any]:
        """List the spout tasks of a topology."""
        await refresh_for_head(request, registry, topology)
        end_head(request)

        async def show(found: Topology) -> dict[str, Any]:
            counts = await stats.read(found)
            listed = sorted((await spouts.read_all(found)).values(), key=lambda spout: spout.name)
            statuses = await status_reader.read(found, listed)
            return {"spouts": [_show(*each, counts) for each in zip(listed, statuses, strict=True)]}

        return await registry.with_current(topology, show)

    @router.get("/{spout_task}", dependencies=[needs("spout")])
    async def get_spout(topology: TopologyName, spout_task: SpoutTask, request: Request) -> dict[str, Any]:
        """Return a spout task."""
        await refresh_for_head(request, registry, topology)

        async def show(found: Topology) -> dict[str, Any]:
            spout = await (spouts.get if is_head(request) else spouts.read)(found, spout_task)
            end_head(request)
            [status] = await status_reader.read(found, [spout])
            return _show(spout, status, await stats.read(found))

        return await registry.with_current(topology, show)


def _add_deletion(router: APIRouter, registry: TopologyRegistry, deleter: SpoutDeleter, trail: AuditTrail) -> None:
    """Add the route that deletes a spout task."""

    @router.delete("/{spout_task}", status_code=204, response_class=Response, dependencies=[needs("spout")])
    async def delete_spout(
        topology: TopologyName, spout_task: SpoutTask, request: Request, *, discard: Discard = False
    ) -> None:
        """Delete a spout task if it is idle, or at once; roots that still end under its name have no completion."""
        if discard:
            require(request, Scope.ADMIN)
        mode = DeleteMode.DISCARD if discard else DeleteMode.IF_IDLE
        count = await deleter.delete(await registry.get(topology), spout_task, mode)
        if discard:
            act = Act.SPOUT_TASK_DELETED
            await note(trail, request, act, topology=topology, spout_task=spout_task, count=count)


async def _set_callback(
    callbacks: Callbacks, topology: str, spout_task: str, callback: Callback | None
) -> tuple[Spout, Spout, str | None]:
    """Set or remove (None) the callback of a spout task; return it before and after, and a generated secret."""

    def change(present: RegisteredCallback | None, now_ms: int) -> RegisteredCallback | None:
        if callback is None:
            return None
        return register_callback(callback, present, now_ms=now_ms, make_secret=make_secret)

    before, after = await callbacks.change(topology, spout_task, change)
    return before, after, generated_secret(callback, before.callback, after.callback)


def _callback(value: Any, *, pubsub_allowed: bool, host_denial: HostDenial) -> Callback:
    callback = read_callback(value)
    if isinstance(callback, PubSub) and not pubsub_allowed:
        raise ValueError(
            "cannot be pubsub: the embedded store has a private socket, where no subscriber can connect; "
            "start the acker with --store-port"
        )
    if isinstance(callback, Webhook) and (kind := host_denial(host := read_address(callback.url).host)):
        raise ValueError(
            f"url must not name {host} ({kind}): the acker sends nothing there, unless ACKER_CALLBACK_ALLOW_CIDRS or "
            "ACKER_CALLBACK_ALLOW_HOSTS allows it"
        )
    return callback


def _show(spout: Spout, status: SpoutStatus, counts: SpoutCounts, secret: str | None = None) -> dict[str, Any]:
    numbers = {
        "pending": counts.pending[spout.index],
        "unread": counts.unread[spout.index],
        "dead_letters": counts.dead[spout.index],
    }
    document = spout.public() | numbers | status.public()
    if spout.callback is not None:
        document["callback"] |= status.delivery.public()
    if secret is not None:
        document["callback"] |= {"secret": secret}
    return document
