"""The application: all doors in, on one store."""

import asyncio

from fastapi import FastAPI

from acker_service.api import (
    auth,
    callbacks,
    completions,
    dead_letters,
    health,
    limits,
    measuring,
    metrics,
    operations,
    problems,
    roots,
    spouts,
    topologies,
)
from acker_service.api.openapi import document
from acker_service.keys_file import configured_keys
from acker_service.settings import Settings
from acker_service.store.store import Store

VERSION = "0.1.0"


def make_app(store: Store, settings: Settings, stopping: asyncio.Event) -> FastAPI:
    """Make the application. Once ``stopping`` is set it answers what waits and is not ready any more."""
    app = FastAPI(
        title="Acker",
        version=VERSION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=document.operation_id,
    )
    most = settings.max_body_bytes
    for router in (  # a request is compared with one route after the other: the most frequent come first
        operations.make_router(store, max_body_bytes=most, max_batch=settings.max_batch),
        topologies.make_router(store, max_body_bytes=most, buckets=settings.buckets),
        spouts.make_router(store, max_body_bytes=most, publishes=settings.publishes),
        callbacks.make_router(store),
        roots.make_router(store, stopping, max_body_bytes=most),
        completions.make_router(store, stopping, max_body_bytes=most),
        dead_letters.make_router(store),
        health.make_router(store, stopping),
        metrics.make_router(store),
    ):
        app.include_router(router)
    auth.install(app, configured_keys(settings.keys_file))
    document.install(app, max_batch=settings.max_batch)
    door = store.meters.door
    limits.install(app, settings.bounds, door)
    problems.install(app)
    measuring.install(app, door)
    store.meters.built(VERSION)
    return app
