"""Finds free ports of this machine."""

import contextlib
import fcntl
import os
import secrets
import socket
from functools import cache

PORTS = range(12_000, 32_000)
_given: set[int] = set()


def free_port() -> int:
    """Return a port on which nothing listens, never the same twice, nor one that another running process got.

    The system gives outgoing connections higher ports; it could give one away before the caller listens there.
    """
    while True:
        port = secrets.choice(PORTS)
        if port in _given or not _claim(port):
            continue
        _given.add(port)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
            probe.bind(("127.0.0.1", port))
            return port


def _claim(port: int) -> bool:
    """Lock a byte of this file that stands for the port until this process ends; False if another process has."""
    try:
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except BlockingIOError:
        return False
    return True


@cache
def _claims() -> int:
    """Open this file, until the process ends; to lock a part of it alone it has to be open for writing."""
    return os.open(__file__, os.O_RDWR)
