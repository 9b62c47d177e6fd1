"""Runs the acker: the embedded store if needed, the worker's tasks and the HTTP server, until a signal."""

import asyncio
import contextlib
import dataclasses
import logging
import resource
import signal
import socket
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from acker_service.app import load_limits, make_app
from acker_service.background import cancel_and_wait
from acker_service.claims import address, in_use
from acker_service.components import Components
from acker_service.http import auth
from acker_service.http.connection import Connection, limited
from acker_service.http.keys import KeysFile
from acker_service.http.load_shedding import LoadLimits
from acker_service.metrics.instruments import HttpMetrics
from acker_service.redis.durability import Mode, read_durability
from acker_service.redis.embedded import EmbeddedServer
from acker_service.settings import Role, Settings, setting
from acker_service.worker import Worker

_log = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRACE_S = 10
"""How long requests in flight may take after a stop signal, or once the process has drained."""
RESERVED_FILES = 256
"""Open files beside client connections: connections to Redis, the log, connections that are being refused."""


class UvicornServer(uvicorn.Server):
    """uvicorn's server, which at a signal ends all waits, drains and then returns.

    At SIGTERM it drains: for ``drain_s`` it serves on, with `Connection: close` in every answer, so that callers leave
    before idle connections are closed. SIGINT, or a second signal, ends it without draining.
    """

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event, *, address: str, drain_s: float = 0.0) -> None:
        super().__init__(config)
        self._stopping, self._address, self._drain_s = stopping, address, drain_s

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM while serving; uvicorn's own method raises them again and so skips our clean-up."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._stop, number)
        try:
            yield
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen. Raises ``RuntimeError`` if another program listens on the address by now."""
        try:
            for bound in sockets or ():
                bound.listen(self.config.backlog)  # uvloop listens too, but hides that it cannot
        except OSError as error:
            raise RuntimeError(in_use(self.config.host, self.config.port)) from error
        await super().startup(sockets)
        _log.info("takes requests at %s", self._address)

    def _stop(self, number: int) -> None:
        drains = number == signal.SIGTERM and self._drain_s > 0 and not self._stopping.is_set()
        drain = f"answers on for {self._drain_s:g} s with Connection: close, then " if drains else ""
        _log.info("stops at %s: %srequests in flight have %d s to end", signal.Signals(number).name, drain, GRACE_S)
        self._stopping.set()
        if drains:
            self._announce_close()
            asyncio.get_running_loop().call_later(self._drain_s, self.handle_exit, number, None)
        else:
            self.handle_exit(number, None)

    def _announce_close(self) -> None:
        for connection in self.server_state.connections:
            if isinstance(connection, Connection):
                connection.announce_close()


def _cancel_start_on_signals() -> None:
    """Let a signal cancel the start, with its clean-up, until the server handles signals."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in SIGNALS:
        loop.add_signal_handler(number, task.cancel)


async def serve(settings: Settings, sockets: list[socket.socket]) -> None:
    """Serve on bound sockets until SIGINT or SIGTERM, and close them.

    Raises ``RuntimeError`` or ``ValueError`` with advice if it cannot start.
    """
    where = address(settings, sockets)
    stopping = asyncio.Event()
    _cancel_start_on_signals()
    async with _redis_url(settings) as url:
        parts = _components(url, settings)
        worker = Worker(parts, settings)
        try:
            await parts.open()
            parts.start(stopping)
            parts.backpressure.start()
            if settings.role is not Role.API:
                worker.start()
            app = make_app(parts, settings, stopping)
            async with _watch_keys(app, settings.keys_file):
                config = _uvicorn_config(app, settings, parts.metrics.http, stopping)
                await UvicornServer(config, stopping, address=where, drain_s=_drain_s(settings)).serve(sockets)
        finally:
            await worker.stop()
            await parts.close()
    _log.info("stopped")


@contextlib.asynccontextmanager
async def _redis_url(settings: Settings) -> AsyncIterator[str]:
    """Give the URL of the configured Redis, or run an embedded one."""
    if settings.redis_url is not None:
        yield settings.redis_url
        return
    embedded = EmbeddedServer(settings.data_dir, port=settings.store_port, sync=_sync(settings))
    try:
        await embedded.start()
        async with _running(embedded.supervise()):
            yield embedded.url
    finally:
        await embedded.stop()


@contextlib.asynccontextmanager
async def _watch_keys(app: FastAPI, path: Path | None) -> AsyncIterator[None]:
    """Install the keys again whenever their file changes."""
    if path is None:
        yield
        return
    async with _running(KeysFile(path).watch(lambda keys: auth.install(app, keys))):
        yield


@contextlib.asynccontextmanager
async def _running(loop: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a loop in the background for as long as the block lasts."""
    task = asyncio.create_task(loop)
    try:
        yield
    finally:
        await cancel_and_wait(task)


def _components(url: str, settings: Settings) -> Components:
    return Components(
        url,
        window_ms=settings.idempotency_window_ms,
        spout_idle_ms=settings.spout_idle_ms,
        mailbox_max=settings.mailbox_max,
        max_spouts=settings.max_spouts,
        max_early=settings.max_early,
        buckets=settings.buckets,
        durability=read_durability(settings.durability),
        fsync_asserted=settings.fsync_asserted,
        supervised=settings.redis_url is None,
    )


def _sync(settings: Settings) -> str:
    return "always" if read_durability(settings.durability).mode is Mode.FSYNC else "everysec"


def _load_limits(settings: Settings) -> LoadLimits:
    """Give the configured limits, with no more connections than the limit of open files allows."""
    fit = raise_file_limit(settings.max_connections)
    if fit < settings.max_connections:
        _log.warning(
            "only %d of %d connections fit the limit of open files: raise it (ulimit -n), or lower %s",
            *(fit, settings.max_connections, setting("max_connections")),
        )
    return dataclasses.replace(load_limits(settings), max_connections=fit)


def _drain_s(settings: Settings) -> float:
    """Give how long to drain. A worker does not: it answers probes and scrapes only."""
    return 0.0 if settings.role is Role.WORKER else settings.shutdown_drain_s


def _uvicorn_config(app: FastAPI, settings: Settings, metrics: HttpMetrics, stopping: asyncio.Event) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=limited(_load_limits(settings), metrics, stopping),
        ws="none",
        backlog=settings.backlog,
        timeout_keep_alive=settings.keep_alive_s,
        access_log=False,
        proxy_headers=False,  # nothing here depends on the caller's address or scheme
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )


def raise_file_limit(connections: int) -> int:
    """Raise the limit of open files for ``connections``, as far as the system allows; give how many fit.

    Beyond the limit the system would close connections without an answer, and connections to Redis would fail.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = wanted_file_limit(connections, soft=soft, hard=hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return connections_within(connections, limit=resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def wanted_file_limit(connections: int, *, soft: int, hard: int) -> int:
    """Compute the limit to request: enough for ``connections``, never below the present one."""
    if soft == resource.RLIM_INFINITY:
        return soft
    wanted = max(soft, connections + RESERVED_FILES)
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


def connections_within(connections: int, *, limit: int) -> int:
    """Compute how many of ``connections`` fit into a limit, at least one."""
    return connections if limit == resource.RLIM_INFINITY else max(1, min(connections, limit - RESERVED_FILES))
