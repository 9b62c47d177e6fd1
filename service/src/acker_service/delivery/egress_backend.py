"""Resolves a receiver's host name and connects to an allowed address only."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Iterable

import httpcore2

from acker_service.delivery.egress import EgressPolicy

MAX_LOOKUPS = 256

Resolve = Callable[[str, int], Awaitable[tuple[str, ...]]]
"""Returns the IP addresses of a host and port, the best first. Raises ``OSError``."""

_Addresses = asyncio.Future[tuple[str, ...]]


class DestinationDenied(httpcore2.ConnectError):
    """A host has no allowed address. Does not name its addresses: they may be internal."""


class EgressGuardedBackend(httpcore2.AsyncNetworkBackend):
    """Opens TCP connections for httpcore2. httpcore2 uses the host's name for TLS and the Host header.

    Each connection resolves the name once and connects to an address of that same answer that is public or allowed,
    so DNS rebinding has no effect. Other spellings of an address (decimal, octal, hexadecimal) are resolved as names.
    """

    def __init__(
        self, *, egress_policy: EgressPolicy, resolve: Resolve, network: httpcore2.AsyncNetworkBackend | None = None
    ) -> None:
        self._policy = egress_policy
        self._resolve = resolve
        self._network = network or httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore2's interface
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first allowed address that answers. Raises `DestinationDenied`, or as httpcore2 does."""
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._allowed_addresses(host, port)
                return await self._connect_first(addresses, port, timeout, local_address, socket_options)
        except TimeoutError:
            raise httpcore2.ConnectTimeout from None

    async def _allowed_addresses(self, host: str, port: int) -> tuple[str, ...]:
        try:
            addresses = await self._resolve(host, port)
        except OSError as error:
            raise httpcore2.ConnectError(f"{host} has no address: {error.strerror or error}") from None
        if self._policy.allows_host(host):
            return addresses
        denials = {address: self._policy.denial(address) for address in addresses}
        allowed = tuple(address for address, denial in denials.items() if denial is None)
        if not allowed:
            kinds = ", ".join(sorted(filter(None, set(denials.values()))))
            raise DestinationDenied(f"{host} is not a place for callbacks ({kinds}); the operator can allow it")
        return allowed

    async def _connect_first(
        self,
        addresses: tuple[str, ...],
        port: int,
        connect_timeout: float | None,
        local_address: str | None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None,
    ) -> httpcore2.AsyncNetworkStream:
        """Try one address after the other, each for an equal share of the time: a silent one leaves time for others."""
        share = None if connect_timeout is None else connect_timeout / len(addresses)
        for address in addresses[:-1]:
            try:
                return await self._network.connect_tcp(address, port, share, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._network.connect_tcp(addresses[-1], port, share, local_address, socket_options)


class Resolver:
    """Resolves any number of names at once with the operating system's resolver; callable as `Resolve`.

    Each lookup has a thread of its own, and concurrent lookups of one name are coalesced. The default executor of an
    event loop has few threads (uvloop: four), and an unresponsive name server blocks one for half a minute.
    """

    def __init__(self, lookup: Callable[[str, int], tuple[str, ...]] | None = None) -> None:
        self._lookup = lookup or _getaddrinfo
        self._pending: dict[tuple[str, int], _Addresses] = {}

    async def __call__(self, host: str, port: int) -> tuple[str, ...]:
        """Return the current addresses; nothing is cached."""
        return await asyncio.shield(self._pending.get((host, port)) or self._start(host, port))

    def _start(self, host: str, port: int) -> _Addresses:
        if len(self._pending) >= MAX_LOOKUPS:
            raise OSError(f"{MAX_LOOKUPS} names are being looked up already")
        addresses: _Addresses = asyncio.get_running_loop().create_future()
        threading.Thread(target=self._run, args=(host, port, addresses), name=f"resolve {host}", daemon=True).start()
        self._pending[host, port] = addresses
        addresses.add_done_callback(lambda _: self._finish(host, port))
        return addresses

    def _finish(self, host: str, port: int) -> None:
        # All waiters may have been cancelled: retrieving the exception keeps asyncio from logging it.
        self._pending.pop((host, port)).exception()

    def _run(self, host: str, port: int, addresses: _Addresses) -> None:
        try:
            complete = _result_setter(addresses, self._lookup(host, port))
        except (OSError, UnicodeError) as error:
            complete = _error_setter(addresses, error if isinstance(error, OSError) else OSError(str(error)))
        # The loop may have been closed meanwhile; then nothing waits for the addresses.
        with contextlib.suppress(RuntimeError):
            addresses.get_loop().call_soon_threadsafe(complete)


def _getaddrinfo(host: str, port: int) -> tuple[str, ...]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


def _result_setter(future: _Addresses, addresses: tuple[str, ...]) -> Callable[[], None]:
    return lambda: future.set_result(addresses)


def _error_setter(future: _Addresses, error: OSError) -> Callable[[], None]:
    return lambda: future.set_exception(error)
