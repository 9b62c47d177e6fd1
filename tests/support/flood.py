"""Floods an acker with pipelined requests, and measures what that does to it."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.support.processes import cpu_seconds, resident_kib
from tests.support.servers import AckerProcess

PIECE = 1 << 20


@dataclass
class Flood:
    """One connection that sends the same bytes for as long as the acker takes them, and reads all answers."""

    url: str
    piece: bytes
    total: int
    answered: int = 0

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout=60)
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._send, self._read)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End the connection, whatever is still under way."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(30)
        self._socket.close()

    def _send(self) -> None:
        with contextlib.suppress(OSError):
            for _ in range(max(1, self.total // len(self.piece))):
                self._socket.sendall(self.piece)

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._socket.recv(PIECE):
                self.answered += data.count(b"HTTP/1.1 ")


@contextlib.contextmanager
def flooded(acker: AckerProcess, piece: bytes, *, total: int, connections: int = 1) -> Iterator[list[Flood]]:
    """Flood an acker until the block is left."""
    floods = [Flood(acker.url, piece, total // connections) for _ in range(connections)]
    try:
        yield floods
    finally:
        for flood in floods:
            flood.close()


def assert_bears(
    acker: AckerProcess, floods: list[Flood], *, answers: int, grown_kib: int, livez_cpu_s: float, within: float = 60.0
) -> None:
    """Watch an acker until its floods have so many answers.

    It grows by less than ``grown_kib``, and works for less than ``livez_cpu_s`` before it says that it lives.
    """
    before, until = resident_kib(acker.process.pid), time.monotonic() + within
    while sum(flood.answered for flood in floods) < answers:
        assert time.monotonic() < until, f"only {[flood.answered for flood in floods]} answers within {within} s"
        worked = cpu_seconds(acker.process.pid)
        assert acker.http.get("/livez").is_success
        worked, grown = cpu_seconds(acker.process.pid) - worked, resident_kib(acker.process.pid) - before
        assert worked < livez_cpu_s, f"the acker worked {worked:.1f} s before it answered /livez"
        assert grown < grown_kib, f"the acker grew by {grown} KiB"
