"""kill -9 in the middle of a load: no root whose init was answered is lost, none is acked early, none is told twice."""

import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import anyio
import httpx
import pytest
from acker_service.redis.embedded import EmbeddedServer
from redis import Redis

from tests.support.caller import Caller
from tests.support.load import Load
from tests.support.servers import acker_serve, free_port, valkey
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

SOME = 1_000
"""So many inits are answered before the kill, and again after it."""


async def load_over_a_kill(url: str, kill: Callable[[], Awaitable[None]]) -> None:
    """Load the acker at ``url``, kill in the middle, load on, and see what became of every root."""
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=20) as http:
        load = Load(Caller(http))
        async with anyio.create_task_group() as group:
            group.start_soon(load.run)
            await load.reaches(SOME)
            await kill()
            await load.reaches(SOME)
            load.ended = True
        await eventually(load.all_told, within=60)
        outcomes = await load.outcomes()
    assert len(outcomes) >= 2 * SOME
    assert outcomes == {(root, "timed_out" if root in load.held else "acked"): 1 for root in load.answered}


def sync_each_write(port: int) -> None:
    """Let no answer come before its writes are in the file: with ``everysec`` Redis holds them back on a busy disk."""
    with Redis(port=port) as redis:
        redis.config_set("appendfsync", "always")


async def test_a_killed_service_loses_no_root(tmp_path: Path) -> None:
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data")) as acker:

        async def kill() -> None:
            acker.kill()
            acker.start()

        await load_over_a_kill(acker.url, kill)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[tuple[EmbeddedServer, int]]:
    port = free_port()
    with valkey(tmp_path / "store", port=port) as store:
        sync_each_write(port)
        yield store, port


async def test_a_killed_store_loses_no_root(tmp_path: Path, store: tuple[EmbeddedServer, int]) -> None:
    server, port = store
    with acker_serve(tmp_path, "--redis-url", f"redis://127.0.0.1:{port}") as acker:

        async def kill() -> None:
            os.kill(server.pid, signal.SIGKILL)
            server._process.wait()
            await server.start()

        await load_over_a_kill(acker.url, kill)


async def test_a_killed_embedded_store_is_started_again_and_loses_no_root(tmp_path: Path) -> None:
    port = free_port()
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data"), "--store-port", str(port)) as acker:
        sync_each_write(port)

        async def kill() -> None:
            with Redis(port=port) as redis:
                os.kill(redis.info("server")["process_id"], signal.SIGKILL)

        await load_over_a_kill(acker.url, kill)
