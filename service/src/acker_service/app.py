"""Builds the HTTP application: hands every router the parts that it uses."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.datastructures import State

from acker_service import VERSION
from acker_service.components import Components
from acker_service.delivery.webhook_tester import WebhookTester
from acker_service.host_names import read_hosts, read_origins
from acker_service.http import auth, head, http_metrics, load_shedding, openapi, problems, ui
from acker_service.http.application import Application
from acker_service.http.exchange import Exchanges
from acker_service.http.keys import KeysFile
from acker_service.http.load_shedding import LoadLimits
from acker_service.http.operations import Operations
from acker_service.http.origins import OriginCheck, OriginPolicy
from acker_service.http.parameters import MAX_DOCUMENT_BYTES
from acker_service.http.rates import Rates
from acker_service.http.routes import (
    audit,
    callbacks,
    completions,
    events,
    failures,
    health,
    links,
    roots,
    samples,
    spouts,
    status,
    topologies,
)
from acker_service.monitoring.metrics_text import Gather
from acker_service.settings import Role, Settings
from acker_service.topologies.spout_status import SpoutStatusReader
from acker_service.worker_role import egress_policy, webhook_client


def make_app(
    parts: Components,
    settings: Settings,
    stopping: asyncio.Event,
    gather: Gather | None = None,
    shown: Mapping[str, Any] | None = None,
) -> Application:
    """Build the application. Setting ``stopping`` ends long polls and streams, and makes it not ready.

    ``gather`` gives the metrics of all processes that serve this address; None: this one serves alone. ``shown`` are
    the settings of the whole acker as answers show them; None: those of this process.
    """
    app = Application(
        title="Acker",
        version=VERSION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    monitoring = _monitoring_routers(parts, settings, stopping, gather)
    for router in (*_contract_routers(parts, settings, stopping), *monitoring):
        app.include_router(router)
    keys_file = None if settings.keys_file is None else KeysFile(settings.keys_file)
    app.state.rates = Rates(parts.metrics.http, parts=settings.processes)
    auth.install(app, None if keys_file is None else keys_file.read())
    app.state.keys_file = keys_file
    if settings.role is not Role.WORKER:
        shown = settings.public() if shown is None else shown
        app.include_router(status.make_router(status=parts.status, settings=shown, keys_file=keys_file))
        openapi.install(app, max_batch=settings.max_batch)
        ui.install(app)
    app.origins = OriginCheck(origin_policy(settings), app.state, parts.metrics.http)
    load = load_shedding.install(app, limits=load_limits(settings), metrics=parts.metrics.http)
    problems.install(app)
    head.install(app)
    http_metrics.install(app, metrics=parts.metrics.http)
    if settings.role is not Role.WORKER:
        app.exchanges = Exchanges(_operations(parts, settings, app.state), load, app.origins)
    parts.metrics.set_version(VERSION)
    return app


def origin_policy(settings: Settings) -> OriginPolicy:
    """Return whose requests are taken without keys."""
    return OriginPolicy(
        is_loopback=settings.is_loopback,
        hosts=read_hosts(settings.allowed_hosts),
        origins=read_origins(settings.allowed_origins),
    )


def load_limits(settings: Settings) -> LoadLimits:
    """Return the configured limits on the load of this process; the largest body always fits the memory for bodies."""
    return LoadLimits(
        max_in_flight=settings.max_in_flight,
        max_waiting=settings.max_waiting,
        max_in_flight_bytes=max(settings.max_in_flight_bytes, settings.max_body_bytes),
        body_timeout_s=settings.body_timeout_s,
        max_connections=settings.max_connections,
        max_header_bytes=settings.max_header_bytes,
        max_body_bytes=settings.max_body_bytes,
    )


def _operations(parts: Components, settings: Settings, state: State) -> Operations:
    return Operations(
        registry=parts.registry,
        applier=parts.applier,
        state=state,
        max_body_bytes=settings.max_body_bytes,
        max_batch=settings.max_batch,
    )


def _contract_routers(parts: Components, settings: Settings, stopping: asyncio.Event) -> list[APIRouter]:
    """Build the routers of the contract, most frequently used first, as they are matched in this order.

    A worker has none.
    """
    if settings.role is Role.WORKER:
        return []
    return [
        *_topology_routers(parts, settings),
        *_root_routers(parts, settings, stopping),
        *_completion_routers(parts, settings, stopping),
        audit.make_router(parts.audit),
        links.make_router(message_url=settings.message_url),
        events.make_router(
            monitor=parts.monitor,
            metrics=parts.metrics.http,
            stopping=stopping,
            max_streams=load_limits(settings).max_event_streams,
        ),
    ]


def _topology_routers(parts: Components, settings: Settings) -> list[APIRouter]:
    """Build the routers of the topologies, of their spout tasks and of the callbacks of these."""
    tester = WebhookTester(parts.registry, parts.spouts, partial(webhook_client, settings))
    return [
        topologies.make_router(
            registry=parts.registry,
            stats=parts.stats,
            history=parts.history,
            deleter=parts.topology_deleter,
            trail=parts.audit,
            max_body_bytes=_max_document_bytes(settings),
            buckets=settings.buckets,
        ),
        spouts.make_router(
            registry=parts.registry,
            spouts=parts.spouts,
            stats=parts.stats,
            status_reader=SpoutStatusReader(parts.shards),
            callbacks=parts.callbacks,
            deleter=parts.spout_deleter,
            trail=parts.audit,
            max_body_bytes=_max_document_bytes(settings),
            pubsub_allowed=settings.publishes,
            host_denial=egress_policy(settings).literal_denial,
        ),
        callbacks.make_router(callbacks=parts.callbacks, trail=parts.audit, test_webhook=tester.test),
    ]


def _root_routers(parts: Components, settings: Settings, stopping: asyncio.Event) -> list[APIRouter]:
    """Build the routers of the roots, and of those that failed."""
    return [
        roots.make_router(
            registry=parts.registry,
            roots=parts.roots,
            explainer=parts.explainer,
            pending_roots=parts.pending_roots,
            spouts=parts.spouts,
            notifier=parts.root_notifier,
            trail=parts.audit,
            stopping=stopping,
            max_body_bytes=_max_document_bytes(settings),
        ),
        failures.make_router(registry=parts.registry, failures=parts.failures),
        samples.make_router(registry=parts.registry, ages=parts.age_counter, component_times=parts.component_times),
    ]


def _completion_routers(parts: Components, settings: Settings, stopping: asyncio.Event) -> list[APIRouter]:
    """Build the routers of the completions and of the dead letters."""
    return [
        completions.make_router(
            registry=parts.registry,
            spouts=parts.spouts,
            mailboxes=parts.mailboxes,
            followers=parts.followers,
            metrics=parts.metrics.http,
            trail=parts.audit,
            stopping=stopping,
            max_body_bytes=_max_document_bytes(settings),
        ),
        completions.make_dead_letter_router(
            registry=parts.registry,
            spouts=parts.spouts,
            dead_letters=parts.dead_letters,
            trail=parts.audit,
            max_body_bytes=_max_document_bytes(settings),
        ),
    ]


def _max_document_bytes(settings: Settings) -> int:
    """Return the size of the largest body of a request that is no operation."""
    return min(settings.max_body_bytes, MAX_DOCUMENT_BYTES)


def _monitoring_routers(
    parts: Components, settings: Settings, stopping: asyncio.Event, gather: Gather | None
) -> list[APIRouter]:
    """Build the routers of the index, the probes and the metrics, which every role has."""
    return [
        health.make_index_router(serves_contract=settings.role is not Role.WORKER),
        health.make_router(readiness=parts.readiness, stopping=stopping),
        health.make_metrics_router(text=parts.metrics_text, gather=gather),
    ]
