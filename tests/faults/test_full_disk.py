"""A store whose disk is full for a while: callers are refused; once its file was rewritten it may stop."""

import os
import signal
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


def has_hole(store: Member) -> bool:
    """Whether a file of a server has a hole."""
    return any(HOLE in file.read_bytes() for file in store.folder.glob("appendonlydir/*.incr.aof"))


async def acker_says(acker: AckerProcess, line: str) -> None:
    """Wait for a line of the acker's log."""

    async def look() -> bool:
        return line in acker.log.read_text()

    await eventually(look, within=60)


async def test_a_store_that_had_no_room_starts_again_and_loses_no_root_once_its_file_was_rewritten(
    tmp_path: Path,
) -> None:
    with (
        small_disk(tmp_path / "disk", size_mib=256) as disk,
        one(disk / "store", *SYNCED) as store,
        acker_serve(tmp_path, "--redis-url", store.url) as acker,
    ):
        if not disk.is_mount():
            pytest.skip("only root can mount a small disk")
        rewrite(store, within=30)  # what a server opens as it starts would have no hole
        async with httpx.AsyncClient(base_url=acker.url, timeout=20) as http:
            load = Load(Caller(http))
            async with anyio.create_task_group() as group:
                group.start_soon(load.run)
                await load.reaches(SOME)
                with filled(disk):
                    await load.is_refused(REFUSED)
                    [found] = judge_servers([store.ask("INFO") | {"maxmemory": 1 << 40}])
                until(lambda: writes(store), "the store writes again", within=30)
                await load.reaches(SOME)
                assert has_hole(store)
                await in_thread(lambda: rewrite(store, within=30))
                await load.reaches(SOME)
                store.ask("CONFIG SET", "appendfsync", "always")  # nothing that was answered is held back
                await load.reaches(SOME)
                await in_thread(store.stop)
                await in_thread(store.start)
                await load.reaches(SOME)
                load.ended = True
            await eventually(load.all_told, within=60)
            outcomes = await load.outcomes()
    assert found["what"] == "Redis cannot write its append-only file: its disk is full, or fails"
    assert outcomes == {(root, "timed_out" if root in load.held else "acked"): 1 for root in load.answered}


async def test_an_embedded_store_that_had_no_room_rewrites_its_file_by_itself(tmp_path: Path) -> None:
    port = free_port()
    store = Member(program="", port=port, folder=tmp_path, options=())
    with (
        small_disk(tmp_path / "disk", size_mib=256) as disk,
        acker_serve(tmp_path, "--data-dir", str(disk / "data"), "--store-port", str(port)) as acker,
    ):
        if not disk.is_mount():
            pytest.skip("only root can mount a small disk")
        rewrite(store, within=30)
        async with httpx.AsyncClient(base_url=acker.url, timeout=20) as http:
            load = Load(Caller(http))
            async with anyio.create_task_group() as group:
                group.start_soon(load.run)
                await load.reaches(SOME)
                with filled(disk):
                    await load.is_refused(REFUSED)
                    await acker_says(acker, append_only_file.CANNOT_WRITE)
                await acker_says(acker, append_only_file.REWRITTEN)
                store.ask("CONFIG SET", "appendfsync", "always")  # nothing that was answered is held back
                await load.reaches(SOME)
                os.kill(store.ask("INFO", "server")["process_id"], signal.SIGKILL)
                await load.reaches(SOME)
                load.ended = True
            await eventually(load.all_told, within=60)
            outcomes = await load.outcomes()
    assert outcomes == {(root, "timed_out" if root in load.held else "acked"): 1 for root in load.answered}


async def test_an_acker_that_is_stopped_has_the_file_rewritten_first(tmp_path: Path) -> None:
    port = free_port()
    store = Member(program="", port=port, folder=tmp_path / "disk" / "data", options=())
    with (
        small_disk(tmp_path / "disk", size_mib=256) as disk,
        acker_serve(tmp_path, "--data-dir", str(disk / "data"), "--store-port", str(port)) as acker,
    ):
        if not disk.is_mount():
            pytest.skip("only root can mount a small disk")
        rewrite(store, within=30)
        async with httpx.AsyncClient(base_url=acker.url, timeout=20) as http:
            load = Load(Caller(http))
            async with anyio.create_task_group() as group:
                group.start_soon(load.run)
                await load.reaches(SOME)
                with filled(disk):
                    await load.is_refused(REFUSED)
                    await acker_says(acker, append_only_file.CANNOT_WRITE)
                await in_thread(lambda: acker.terminate(within=30))
                assert append_only_file.REWRITTEN in acker.log.read_text()
                await in_thread(acker.start)
                await load.reaches(SOME)
                load.ended = True
            await eventually(load.all_told, within=60)
