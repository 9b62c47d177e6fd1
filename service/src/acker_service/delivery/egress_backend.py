"""Knows how a connection to a receiver is made: to an address that was checked, and to no other."""

import asyncio
from collections.abc import Iterable

import httpcore

from acker_service.delivery.dns import Resolve
from acker_service.delivery.egress import EgressPolicy


class DestinationDenied(httpcore.ConnectError):
    """A name led to no address that callbacks may go to. Which ones it led to is not told: they may be internal."""


class EgressGuardedBackend(httpcore.AsyncNetworkBackend):
    """Dials for httpcore, which then speaks TLS and HTTP with the host by its name.

    The name is resolved once for each connection, and the connection goes to an address of that answer which is public
    or allowed: what the name leads to a moment later does not matter. Other spellings of an address (decimal, octal,
    hexadecimal) are names like any other, that the resolver reads.
    """

    def __init__(
        self, *, allowed: EgressPolicy, resolve: Resolve, network: httpcore.AsyncNetworkBackend | None = None
    ) -> None:
        self._allowed, self._resolve = allowed, resolve
        self._network = network or httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's interface
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first checked address that answers. Raises `Refused`, or as httpcore does."""
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._checked(host, port)
                return await self._dial(addresses, port, timeout, local_address, socket_options)
        except TimeoutError:
            raise httpcore.ConnectTimeout from None

    async def _checked(self, host: str, port: int) -> tuple[str, ...]:
        try:
            addresses = await self._resolve(host, port)
        except OSError as fault:
            raise httpcore.ConnectError(f"{host} has no address: {fault.strerror or fault}") from None
        if self._allowed.allows_host(host):
            return addresses
        refusals = {address: self._allowed.denial(address) for address in addresses}
        checked = tuple(address for address, refusal in refusals.items() if refusal is None)
        if not checked:
            kinds = ", ".join(sorted(filter(None, set(refusals.values()))))
            raise DestinationDenied(f"{host} is not a place for callbacks ({kinds}); the operator can allow it")
        return checked

    async def _dial(
        self,
        addresses: tuple[str, ...],
        port: int,
        within: float | None,
        local_address: str | None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None,
    ) -> httpcore.AsyncNetworkStream:
        """Try one after the other, each for its share of the time: one that is silent leaves some to the next."""
        share = None if within is None else within / len(addresses)
        for address in addresses[:-1]:
            try:
                return await self._network.connect_tcp(address, port, share, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._network.connect_tcp(addresses[-1], port, share, local_address, socket_options)
