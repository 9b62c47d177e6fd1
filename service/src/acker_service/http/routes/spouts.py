"""The door for spout tasks."""

from functools import partial
from typing import Any

from acker_protocol.signature import make_secret
from acker_protocol.wire.operations import check
from fastapi import APIRouter, Request, Response

from acker_service.http.access import Scope
from acker_service.http.auth import needs, require
from acker_service.http.bodies import read_json_if_any
from acker_service.http.parameters import Discard, SpoutTask, TopologyName
from acker_service.store import Store
from acker_service.topologies.callback import (
    Callback,
    PubSub,
    RegisteredCallback,
    generated_secret,
    read_callback,
    register_callback,
)
from acker_service.topologies.deletion import DeleteMode
from acker_service.topologies.spouts import Spout
from acker_service.topologies.stamp import Topology
from acker_service.topologies.stats import SpoutCounts


def make_router(store: Store, *, max_body_bytes: int, publishes: bool) -> APIRouter:
    """Make the routes of the spout tasks; ``publishes`` is whether anybody could subscribe to what is published."""
    router = APIRouter(prefix="/v1/topologies/{topology}/spouts", tags=["spout tasks"])

    @router.get("", dependencies=[needs("spout")])
    async def list_spouts(topology: TopologyName) -> dict[str, Any]:
        """List the spout tasks of a topology."""

        async def show(found: Topology) -> dict[str, Any]:
            counts = await store.stats.read(found)
            spouts = (await store.spouts.read_all(found)).values()
            return {"spouts": [_show(spout, counts) for spout in sorted(spouts, key=lambda spout: spout.name)]}

        return await store.registry.with_current(topology, show)

    @router.get("/{spout_task}", dependencies=[needs("spout")])
    async def get_spout(topology: TopologyName, spout_task: SpoutTask) -> dict[str, Any]:
        """Give a spout task."""

        async def show(found: Topology) -> dict[str, Any]:
            return _show(await store.spouts.read(found, spout_task), await store.stats.read(found))

        return await store.registry.with_current(topology, show)

    @router.put("/{spout_task}", dependencies=[needs("spout")])
    async def put_spout(
        topology: TopologyName, spout_task: SpoutTask, request: Request, response: Response
    ) -> dict[str, Any]:
        """Make a spout task (201), or change it (200): fields left out keep their value."""
        document = await read_json_if_any(request, most=max_body_bytes)
        values = check(document, {"callback": partial(_callback, publishes=publishes), "ephemeral": _flag})
        ephemeral = values.get("ephemeral", False if "ephemeral" in document else None)
        spout, is_new = await store.spouts.create_or_update(
            await store.registry.get(topology), spout_task, ephemeral=ephemeral
        )
        response.status_code = 201 if is_new else 200
        secret = None
        if "callback" in document:
            spout, secret = await _call_back(store, topology, spout_task, values.get("callback"))
        return _show(spout, await store.stats.read(await store.registry.get(topology)), secret)

    @router.delete("/{spout_task}", status_code=204, response_class=Response, dependencies=[needs("spout")])
    async def delete_spout(
        topology: TopologyName, spout_task: SpoutTask, request: Request, *, discard: Discard = False
    ) -> None:
        """Delete a spout task if it is idle, or at once; what still ends under its name is told to nobody."""
        if discard:
            require(request, Scope.ADMIN)
        mode = DeleteMode.DISCARD if discard else DeleteMode.IF_IDLE
        await store.spout_deleter.delete(await store.registry.get(topology), spout_task, mode)

    return router


async def _call_back(
    store: Store, topology: str, spout_task: str, callback: Callback | None
) -> tuple[Spout, str | None]:
    """Change the callback of a spout task; gives the secret too, if one was made for it."""

    def change(present: RegisteredCallback | None, now_ms: int) -> RegisteredCallback | None:
        if callback is None:
            return None
        return register_callback(callback, present, now_ms=now_ms, make_secret=make_secret)

    before, after = await store.callbacks.change(topology, spout_task, change)
    return after, generated_secret(callback, before.callback, after.callback)


def _callback(value: Any, *, publishes: bool) -> Callback:
    callback = read_callback(value)
    if isinstance(callback, PubSub) and not publishes:
        raise ValueError(
            "cannot be pubsub: the embedded store has a private socket, which nobody can subscribe at; "
            "start the acker with --store-port"
        )
    return callback


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")  # noqa: TRY004 - every check raises one kind of error
    return value


def _show(spout: Spout, counts: SpoutCounts, secret: str | None = None) -> dict[str, Any]:
    numbers = {
        "pending": counts.pending[spout.index],
        "unread": counts.unread[spout.index],
        "dead_letters": counts.dead[spout.index],
    }
    shown = spout.public() | numbers
    if secret is not None:
        shown["callback"] |= {"secret": secret}
    return shown
