"""Runs the acker: the embedded store if needed, the worker's tasks and the HTTP server, until a signal."""

import asyncio
import contextlib
import dataclasses
import gc
import logging
import resource
import signal
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import uvicorn

from acker_service.app import load_limits, make_app
from acker_service.claims import address, in_use
from acker_service.components import Components, make_components, running, store_url
from acker_service.http import auth
from acker_service.http.application import Application
from acker_service.http.certificate import Certificate
from acker_service.http.connection import Connection, limited
from acker_service.http.keys import KeysFile
from acker_service.http.load_shedding import LoadLimits
from acker_service.http.tls import encrypted
from acker_service.metrics.instruments import FileMetrics, HttpMetrics
from acker_service.monitoring.metrics_text import Gather
from acker_service.settings import Role, Settings, setting
from acker_service.signals import GRACE_S, cancel_start_on_signals, handled, stop_line
from acker_service.worker_role import Worker

_log = logging.getLogger(__name__)

RESERVED_FILES = 256
"""Open files beside client connections: connections to Redis, the log, connections that are being refused."""


class StoppableServer(uvicorn.Server):
    """uvicorn's server, which ends all waits when it stops, and may drain before.

    While it drains it serves on, with `Connection: close` in every answer, so that callers leave before idle
    connections are closed.
    """

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    def drain(self) -> None:
        """Be not ready, end all waits, and let callers leave."""
        self._stopping.set()
        for connection in self.server_state.connections:
            if isinstance(connection, Connection):
                connection.announce_close()

    def end(self, number: int) -> None:
        """End because of a signal, once the requests in flight are answered; a second SIGINT ends it at once."""
        self._stopping.set()
        self.handle_exit(number, None)


class UvicornServer(StoppableServer):
    """A server that stops at a signal. At SIGTERM it drains for ``drain_s``; SIGINT, or a second signal, ends it."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event, *, address: str, drain_s: float = 0.0) -> None:
        super().__init__(config, stopping)
        self._address = address
        self._drain_s = drain_s

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM while serving; uvicorn's own method raises them again and so skips our clean-up."""
        with handled(self._stop):
            yield

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
        _log.info("%s", stop_line(number, self._drain_s if drains else 0.0))
        if drains:
            self.drain()
            asyncio.get_running_loop().call_later(self._drain_s, self.end, number)
        else:
            self.end(number)


async def serve(settings: Settings, sockets: list[socket.socket]) -> None:
    """Serve on bound sockets until SIGINT or SIGTERM, and close them.

    Raises ``RuntimeError`` or ``ValueError`` with advice if it cannot start.
    """
    where = address(settings, sockets)
    stopping = asyncio.Event()
    cancel_start_on_signals()
    async with store_url(settings) as url:
        parts = make_components(url, settings)
        async with opened(parts, settings, stopping) as config:
            await UvicornServer(config, stopping, address=where, drain_s=_drain_s(settings)).serve(sockets)
    _log.info("stopped")


@contextlib.asynccontextmanager
async def opened(
    parts: Components,
    settings: Settings,
    stopping: asyncio.Event,
    *,
    is_checked: bool = False,
    gather: Gather | None = None,
    shown: Mapping[str, Any] | None = None,
) -> AsyncIterator[uvicorn.Config]:
    """Open the parts, start the worker's tasks and build the application until the block ends, and yield what to serve.

    Where several processes serve, ``is_checked`` says that the supervisor has checked the store, ``gather`` gives the
    metrics of all of them, and ``shown`` are the settings of the whole acker as answers show them.
    """
    worker = Worker(parts, settings)
    try:
        await parts.open(is_checked=is_checked)
        parts.start(stopping)
        parts.backpressure.start()
        parts.processes.start()
        if settings.role is not Role.API:
            worker.start()
        app = make_app(parts, settings, stopping, gather, shown)
        gc.freeze()  # what the start has made lives as long as the process: the garbage collector need not visit it
        async with (
            _watch_keys(app, parts.metrics.files),
            _watch_certificate(settings, parts.metrics.files) as certificate,
        ):
            yield _uvicorn_config(app, settings, parts.metrics.http, stopping, certificate)
    finally:
        await worker.stop()
        await parts.close()


@contextlib.asynccontextmanager
async def _watch_keys(app: Application, metrics: FileMetrics) -> AsyncIterator[None]:
    """Install the keys again whenever their file changes."""
    file: KeysFile | None = app.state.keys_file
    if file is None:
        yield
        return
    metrics.keys_file_valid.set_function(lambda: file.is_valid)
    async with running(file.watch(lambda keys: auth.install(app, keys))):
        yield


@contextlib.asynccontextmanager
async def _watch_certificate(settings: Settings, metrics: FileMetrics) -> AsyncIterator[Certificate | None]:
    """Read the certificate, and again whenever its files change, and yield None without TLS."""
    if settings.tls_cert is None or settings.tls_key is None:
        yield None
        return
    certificate = Certificate(settings.tls_cert, settings.tls_key)
    metrics.certificate_valid.set_function(lambda: certificate.is_valid)
    metrics.certificate_expires.set_function(lambda: certificate.expires_at)
    async with running(certificate.watch()):
        yield certificate


def _load_limits(settings: Settings) -> LoadLimits:
    """Return the configured limits, with no more connections than the limit of open files allows."""
    fit = raise_file_limit(settings.max_connections)
    if fit < settings.max_connections:
        _log.warning(
            "only %d of %d connections fit the limit of open files: raise it (ulimit -n), or lower %s",
            *(fit, settings.max_connections, setting("max_connections")),
        )
    return dataclasses.replace(load_limits(settings), max_connections=fit)


def _drain_s(settings: Settings) -> float:
    """Return how long to drain. A worker does not: it answers probes and scrapes only."""
    return 0.0 if settings.role is Role.WORKER else settings.shutdown_drain_s


def _uvicorn_config(
    app: Application, settings: Settings, metrics: HttpMetrics, stopping: asyncio.Event, certificate: Certificate | None
) -> uvicorn.Config:
    connection = limited(_load_limits(settings), metrics, stopping, app.exchanges)
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=connection if certificate is None else encrypted(connection, certificate),
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
