"""Claims what only one acker can have, its address and its data folder, before anything else starts.

The server takes a second to import: this module imports nothing of it, so that errors come at once.
"""

import contextlib
import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from acker_protocol.redis_url import without_login

from acker_service import VERSION
from acker_service.http.keys import configured_keys
from acker_service.settings import Settings, setting

LOCK = "owner.lock"
"""The file that an acker locks as long as it lives, in its data folder.

The store has a lock of its own there, which it holds a little longer than an acker that was killed.
"""


@contextlib.contextmanager
def claim(settings: Settings) -> Iterator[list[socket.socket]]:
    """Bind the address and lock the data folder of an embedded store until the block ends, and yield the bound sockets.

    The sockets do not listen yet: a connection is refused until the server is ready. Raises ``RuntimeError``, which
    says what to do.
    """
    with contextlib.ExitStack() as stack:
        sockets = bind(settings.host, settings.port)
        for bound in sockets:
            stack.enter_context(bound)
        if settings.redis_url is None:
            stack.enter_context(_data_folder(settings.data_dir))
            _check_store_port(settings.store_port)
        yield sockets


def address(settings: Settings, sockets: list[socket.socket]) -> str:
    """Return the URL where the sockets are reached; the port is the one that is bound."""
    host = settings.host or "0.0.0.0"  # noqa: S104 - shown, not bound
    scheme = "http" if settings.tls_cert is None else "https"
    return f"{scheme}://[{host}]:{_port(sockets)}" if ":" in host else f"{scheme}://{host}:{_port(sockets)}"


def start_line(settings: Settings, sockets: list[socket.socket]) -> str:
    """Describe how this process is set up, without any secret."""
    if settings.redis_url is not None:
        store = without_login(settings.redis_url)
    else:
        store = f"an embedded one, data folder {settings.data_dir.absolute()}"
    keys = configured_keys(settings.keys_file)
    named = "none, every request is allowed" if keys is None else f"{len(keys)} in {settings.keys_file}"
    processes = f"processes: {settings.processes}; " if settings.processes > 1 else ""
    return (
        f"acker {VERSION} starts; address: {address(settings, sockets)}; role: {settings.role.value}; {processes}"
        f"store: {store}; durability: {settings.durability}; keys: {named}"
    )


def bind(host: str, port: int) -> list[socket.socket]:
    """Bind a socket for every address of a host; an empty host means all addresses of this machine."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        what = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise RuntimeError(
            f"{setting('host')} is {host!r}, which names no address: {what.lower()}; name one of this machine"
        ) from None
    bound: list[socket.socket] = []
    failure: OSError | None = None
    for family, kind, protocol, _, where in dict.fromkeys(found):
        try:
            bound.append(_bound(socket.socket(family, kind, protocol), where))
        except OSError as error:
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                _close(bound)
                raise RuntimeError(_advice(host, port, error)) from None
            failure = error
    if failure is not None and not bound:
        raise RuntimeError(_advice(host, port, failure))
    return bound


def _bound(unbound: socket.socket, where: object) -> socket.socket:
    try:
        unbound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if unbound.family == socket.AF_INET6:
            unbound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        unbound.bind(where)  # type: ignore[arg-type]
    except OSError:
        unbound.close()
        raise
    return unbound


def _close(sockets: list[socket.socket]) -> None:
    for each in sockets:
        each.close()


def _port(sockets: list[socket.socket]) -> int:
    return int(sockets[0].getsockname()[1])


def _advice(host: str, port: int, error: OSError) -> str:
    what = f"cannot listen on {host}:{port}: {(error.strerror or str(error)).lower()}"
    if error.errno == errno.EADDRINUSE:
        return f"{what}; stop the program that listens there, or choose another port with {setting('port')}"
    if error.errno == errno.EACCES:
        return f"{what}; choose a port above 1023 with {setting('port')}"
    return f"{what}; choose an address of this machine with {setting('host')}"


def in_use(host: str, port: int) -> str:
    """Describe that another program listens on a port, and what to do."""
    return _advice(host, port, OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE)))


@contextlib.contextmanager
def _data_folder(folder: Path) -> Iterator[None]:
    """Lock the data folder; no child process inherits the lock."""
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context((folder / LOCK).open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(
                f"the data folder {folder} is in use by another acker; stop that one, or give this one a folder of its "
                f"own with {setting('data_dir')}"
            ) from None
        except OSError as error:
            raise RuntimeError(
                f"the data folder cannot be used: {folder}: {(error.strerror or str(error)).lower()}; choose another "
                f"with {setting('data_dir')}"
            ) from None
        yield


def _check_store_port(port: int) -> None:
    """Check that the embedded store can have its port, where it is given one."""
    if port:
        try:
            _close([_bound(socket.socket(), ("127.0.0.1", port))])
        except OSError as error:
            raise RuntimeError(
                f"the embedded store cannot listen on 127.0.0.1:{port}: {(error.strerror or str(error)).lower()}; "
                f"choose another port with {setting('store_port')}"
            ) from None
