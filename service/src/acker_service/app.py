"""The application: all doors in, on one store."""

import asyncio

from fastapi import APIRouter, FastAPI

from acker_service import VERSION
from acker_service.http import auth, errors, http_metrics, load_shedding
from acker_service.http.keys_file import configured_keys
from acker_service.http.openapi import document
from acker_service.http.routes import (
    callbacks,
    completions,
    dead_letters,
    health,
    metrics,
    operations,
    roots,
    spouts,
    topologies,
)
from acker_service.settings import Role, Settings
from acker_service.store import Store


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
    for router in (*_working(store, stopping, settings), *_watching(store, stopping)):
        app.include_router(router)
    auth.install(app, configured_keys(settings.keys_file))
    if settings.role is not Role.WORKER:
        document.install(app, max_batch=settings.max_batch)
    door = store.metrics.http
    load_shedding.install(app, settings.load_limits, door)
    errors.install(app)
    http_metrics.install(app, door)
    store.metrics.built(VERSION)
    return app


def _working(store: Store, stopping: asyncio.Event, settings: Settings) -> list[APIRouter]:
    """Make the routes of the contract; none for a worker."""
    if settings.role is Role.WORKER:
        return []
    most = settings.max_body_bytes
    return [  # a request is compared with one route after the other: the most frequent come first
        operations.make_router(store, max_body_bytes=most, max_batch=settings.max_batch),
        topologies.make_router(store, max_body_bytes=most, buckets=settings.buckets),
        spouts.make_router(store, max_body_bytes=most, publishes=settings.publishes),
        callbacks.make_router(store),
        roots.make_router(store, stopping, max_body_bytes=most),
        completions.make_router(store, stopping, max_body_bytes=most),
        dead_letters.make_router(store),
    ]


def _watching(store: Store, stopping: asyncio.Event) -> list[APIRouter]:
    """Make the routes for those who watch the process."""
    return [health.make_router(store, stopping), metrics.make_router(store)]
