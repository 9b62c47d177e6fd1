"""Runs the acker: the store, the tick and the doors in, until it is told to stop."""

import asyncio
import contextlib
import dataclasses
import logging
import signal
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from acker_service.app import make_app
from acker_service.background import cancel_and_wait
from acker_service.file_limits import raise_limit
from acker_service.http import auth
from acker_service.http.connection import bounded
from acker_service.http.keys_file import KeysFile, configured_keys
from acker_service.http.load_limits import LoadLimits
from acker_service.metrics.http import HttpMetrics
from acker_service.redis.durability import Mode, read_durability
from acker_service.redis.embedded import EmbeddedServer
from acker_service.settings import Role, Settings
from acker_service.store import Store
from acker_service.worker import Worker

_log = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRACE_S = 10
"""How long requests in flight may take once the acker is told to stop."""


class UvicornServer(uvicorn.Server):
    """uvicorn, but told of a signal it first releases whoever waits, then ends by returning."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take SIGINT and SIGTERM while serving; uvicorn's own way would raise them again and so skip our clean-up."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._stop, number)
        try:
            yield
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)

    def _stop(self, number: int) -> None:
        self._stopping.set()
        self.handle_exit(number, None)


def _stop_beginning_on_signals() -> None:
    """Until the server takes the signals over, let them end the start, with all that it has to clean up."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in SIGNALS:
        loop.add_signal_handler(number, task.cancel)


async def serve(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM. Raises ``RuntimeError`` or ``ValueError`` if it cannot begin, with what to do."""
    configured_keys(settings.keys_file)
    stopping = asyncio.Event()
    _stop_beginning_on_signals()
    async with _store_url(settings) as url:
        store = _store(url, settings)
        working = Worker(store, settings)
        try:
            await store.open()
            store.start(stopping)
            store.backpressure.start()
            if settings.role is not Role.API:
                working.start()
            app = make_app(store, settings, stopping)
            async with _keys_kept(app, settings.keys_file):
                await UvicornServer(_config(app, settings, store.metrics.http), stopping).serve()
        finally:
            await working.stop()
            await store.close()


@contextlib.asynccontextmanager
async def _store_url(settings: Settings) -> AsyncIterator[str]:
    if settings.redis_url is not None:
        yield settings.redis_url
        return
    embedded = EmbeddedServer(settings.data_dir, port=settings.store_port, sync=_sync(settings))
    try:
        await embedded.start()
        async with _kept(embedded.supervise()):
            yield embedded.url
    finally:
        await embedded.stop()


@contextlib.asynccontextmanager
async def _keys_kept(app: FastAPI, path: Path | None) -> AsyncIterator[None]:
    """Take over what changes in the file of keys."""
    if path is None:
        yield
        return
    async with _kept(KeysFile(path).keep(lambda keys: auth.install(app, keys))):
        yield


@contextlib.asynccontextmanager
async def _kept(keep: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Let something go on by itself as long as the block lasts."""
    keeping = asyncio.create_task(keep)
    try:
        yield
    finally:
        await cancel_and_wait(keeping)


def _store(url: str, settings: Settings) -> Store:
    return Store(
        url,
        window_ms=settings.idempotency_window_ms,
        spout_idle_ms=settings.spout_idle_ms,
        mailbox_max=settings.mailbox_max,
        buckets=settings.buckets,
        durability=read_durability(settings.durability),
        fsync_asserted=settings.fsync_asserted,
    )


def _sync(settings: Settings) -> str:
    return "always" if read_durability(settings.durability).mode is Mode.FSYNC else "everysec"


def _bounds(settings: Settings) -> LoadLimits:
    """Hold the connections to what the limit of open files allows."""
    fit = raise_limit(settings.max_connections)
    if fit < settings.max_connections:
        _log.warning("only %d of %d connections fit the limit of open files", fit, settings.max_connections)
    return dataclasses.replace(settings.load_limits, max_connections=fit)


def _config(app: FastAPI, settings: Settings, meters: HttpMetrics) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=bounded(_bounds(settings), meters),
        ws="none",
        backlog=settings.backlog,
        timeout_keep_alive=settings.keep_alive_s,
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
