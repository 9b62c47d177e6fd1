"""Speaks HTTP byte by byte, as slow, greedy and broken clients do."""

import json
import select
import socket
import ssl
import time
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit


def unchecked() -> ssl.SSLContext:
    """Return a context of a client that believes any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class RawHttp:
    """A connection on which a test sends what it likes, and reads what comes.

    ``window`` bounds the bytes that the test's side of the connection takes in before it reads them. Over https it
    believes any certificate.
    """

    def __init__(self, url: str, *, timeout: float = 30.0, window: int | None = None) -> None:
        parts = urlsplit(url)
        self._socket = socket.socket()
        if window is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        self._socket.settimeout(timeout)
        self._socket.connect((parts.hostname, parts.port))
        if parts.scheme == "https":
            self._socket = unchecked().wrap_socket(self._socket, server_hostname=parts.hostname)
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> "RawHttp":
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: object, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def send(self, *parts: bytes) -> None:
        self._socket.sendall(b"".join(parts))

    def post(self, path: str, *headers: str, length: int) -> None:
        """Send the head of a POST, and nothing of its body."""
        lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers]
        self.send("\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode())

    def get(self, path: str) -> tuple[int, dict[str, str], Any]:
        self.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return self.answer()

    def answer(self) -> tuple[int, dict[str, str], Any]:
        """Read an answer: status, headers with lowercase names, and its JSON (None: an interim answer)."""
        status = int(self._line().split(" ")[1])
        headers = {}
        while line := self._line():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        if "content-length" not in headers:
            return status, headers, None
        return status, headers, json.loads(self._file.read(int(headers["content-length"])))

    def read(self, count: int) -> bytes:
        """Read so many bytes of whatever comes; fewer where the connection ends."""
        try:
            return self._file.read(count)
        except ConnectionResetError:
            return b""

    def read_line(self) -> bytes:
        """Read a line with its end; nothing where the connection ends."""
        try:
            return self._file.readline()
        except ConnectionResetError:
            return b""

    def wait_for_answer(self) -> None:
        """Wait until the first bytes of an answer have come, and leave them unread."""
        if isinstance(self._socket, ssl.SSLSocket):  # it cannot look ahead: a few kilobytes are read
            assert self._file.peek(1), "the connection ended without an answer"
        else:
            assert self._socket.recv(1, socket.MSG_PEEK), "the connection ended without an answer"

    def end(self) -> None:
        """Send nothing more."""
        self._socket.shutdown(socket.SHUT_WR)

    def is_closed(self) -> bool:
        """Wait for the server to close, with nothing more said."""
        try:
            return self._file.read(1) == b""
        except ConnectionResetError:
            return True

    def trickle_until_closed(self, byte: bytes, *, within: float = 30.0) -> None:
        """Send a byte now and then, for as long as the server listens. Fails after ``within`` seconds."""
        until = time.monotonic() + within
        while not select.select([self._socket], [], [], 0.05)[0]:
            assert time.monotonic() < until, f"still open after {within} s"
            self.send(byte)
        assert self.is_closed()

    def _line(self) -> str:
        line = self._file.readline()
        assert line.endswith(b"\n"), f"the connection ended with {line!r}"
        return line.decode().rstrip("\r\n")
