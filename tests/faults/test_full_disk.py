"""A store whose disk is full for a while: callers are refused; once its file was rewritten it may stop."""

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import httpx
import pytest
from acker_service.redis import append_only_file
from acker_service.store_check import judge_servers
from anyio.to_thread import run_sync as in_thread

from bench.servers import Member, one, until
from tests.support.caller import Caller
from tests.support.full_disk import filled, rewrite, small_disk, writes
from tests.support.load import Load
from tests.support.servers import AckerProcess, acker_serve, free_port
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

SOME = 1_000
REFUSED = 10
SYNCED = ("--appendonly", "yes", "--appendfsync", "everysec")

HOLE = bytes(64)
"""No command of the acker has so many zeros in a row."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", size_mib=256) as disk:
        if not disk.is_mount():
            pytest.skip("only root can mount a small disk")
        yield disk


@pytest.fixture
def store(disk: Path) -> Iterator[Member]:
    """A store whose file was rewritten: the file that a server opens as it starts would have no hole."""
    with one(disk / "store", *SYNCED) as store:
        rewrite(store, within=30)
        yield store


@pytest.fixture
def embedding(disk: Path, tmp_path: Path) -> Iterator[tuple[AckerProcess, Member]]:
    """An acker, and its embedded store, whose file was rewritten likewise."""
    store = Member(program="", port=free_port(), folder=disk / "data", options=())
    with acker_serve(tmp_path, "--data-dir", str(store.folder), "--store-port", str(store.port)) as acker:
        rewrite(store, within=30)
        yield acker, store


@contextlib.asynccontextmanager
async def loading(acker: AckerProcess) -> AsyncIterator[Load]:
    """Load an acker in the block; after it each root that was answered is told once, as it ended."""
    async with httpx.AsyncClient(base_url=acker.url, timeout=20) as http:
        load = Load(Caller(http))
        async with anyio.create_task_group() as group:
            group.start_soon(load.run)
            await load.reaches(SOME)
            yield load
            await load.reaches(SOME)
            load.ended = True
        await eventually(load.all_told, within=60)
        outcomes = await load.outcomes()
    assert outcomes == {(root, "timed_out" if root in load.held else "acked"): 1 for root in load.answered}


def has_hole(store: Member) -> bool:
    """Whether a file of a server has a hole."""
    return any(HOLE in file.read_bytes() for file in store.folder.glob("appendonlydir/*.incr.aof"))


def sync_each_write(store: Member) -> None:
    """Let the server hold back nothing that was answered."""
    store.ask("CONFIG SET", "appendfsync", "always")


async def acker_says(acker: AckerProcess, line: str) -> None:
    """Wait for a line of the acker's log."""

    async def look() -> bool:
        return line in acker.log.read_text()

    await eventually(look, within=60)


async def test_a_store_that_had_no_room_starts_again_and_loses_no_root_once_its_file_was_rewritten(
    tmp_path: Path, disk: Path, store: Member
) -> None:
    with acker_serve(tmp_path, "--redis-url", store.url) as acker:
        async with loading(acker) as load:
            with filled(disk):
                await load.is_refused(REFUSED)
                [found] = judge_servers([store.ask("INFO") | {"maxmemory": 1 << 40}])
            until(lambda: writes(store), "the store writes again", within=30)
            await load.reaches(SOME)
            assert has_hole(store)
            await in_thread(lambda: rewrite(store, within=30))
            sync_each_write(store)
            await load.reaches(SOME)
            await in_thread(store.stop)
            await in_thread(store.start)
    assert found["what"] == "Redis cannot write its append-only file: its disk is full, or fails"


async def test_an_embedded_store_that_had_no_room_rewrites_its_file_by_itself(
    disk: Path, embedding: tuple[AckerProcess, Member]
) -> None:
    acker, store = embedding
    async with loading(acker) as load:
        with filled(disk):
            await load.is_refused(REFUSED)
            await acker_says(acker, append_only_file.CANNOT_WRITE)
        await acker_says(acker, append_only_file.REWRITTEN)
        sync_each_write(store)
        await load.reaches(SOME)
        os.kill(store.ask("INFO", "server")["process_id"], signal.SIGKILL)


async def test_an_acker_that_is_stopped_has_the_file_rewritten_first(
    disk: Path, embedding: tuple[AckerProcess, Member]
) -> None:
    acker, _ = embedding
    async with loading(acker) as load:
        with filled(disk):
            await load.is_refused(REFUSED)
            await acker_says(acker, append_only_file.CANNOT_WRITE)
        await in_thread(lambda: acker.terminate(within=30))
        assert append_only_file.REWRITTEN in acker.log.read_text()
        await in_thread(acker.start)
