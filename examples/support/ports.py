"""Finds free ports of this machine."""

import contextlib
import secrets
import socket

PORTS = range(12_000, 32_000)
_given: set[int] = set()


def free_port() -> int:
    """Give a port that nobody listens on, another one each time.

    From below those that the system gives to outgoing connections: one of those might be gone before it is listened on.
    """
    while True:
        port = secrets.choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
            probe.bind(("127.0.0.1", port))
            if port not in _given:
                _given.add(port)
                return port
