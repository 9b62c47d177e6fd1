"""Knows how host names become IP addresses, without a slow name keeping any other waiting."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable

MAX_LOOKUPS = 256

Resolve = Callable[[str, int], Awaitable[tuple[str, ...]]]
"""Gives the IP addresses of a host, the best first. Raises ``OSError``."""

_Asked = dict[tuple[str, int], "asyncio.Future[tuple[str, ...]]"]


class Resolver:
    """Asks the operating system, for any number of destinations; callable as `Resolve`.

    Each lookup has a thread of its own, and a name that is being looked up is not asked for again. The threads of the
    event loop are few (uvloop: four), and a dead name server holds one for half a minute.
    """

    def __init__(self, ask: Callable[[str, int], tuple[str, ...]] | None = None) -> None:
        self._ask = ask or _ask_system
        self._asked: _Asked = {}

    async def __call__(self, host: str, port: int) -> tuple[str, ...]:
        """Give the addresses as they are now: nothing is kept."""
        return await asyncio.shield(self._asked.get((host, port)) or self._begin(host, port))

    def _begin(self, host: str, port: int) -> "asyncio.Future[tuple[str, ...]]":
        if len(self._asked) >= MAX_LOOKUPS:
            raise OSError(f"{MAX_LOOKUPS} names are being looked up already")
        found: asyncio.Future[tuple[str, ...]] = asyncio.get_running_loop().create_future()
        threading.Thread(target=self._look_up, args=(host, port, found), name=f"resolve {host}", daemon=True).start()
        self._asked[host, port] = found
        found.add_done_callback(lambda _: self._end(host, port))
        return found

    def _end(self, host: str, port: int) -> None:
        # Whoever waited may have gone: asking for the exception keeps asyncio from complaining of that.
        self._asked.pop((host, port)).exception()

    def _look_up(self, host: str, port: int, found: "asyncio.Future[tuple[str, ...]]") -> None:
        try:
            settle = _settled(found, self._ask(host, port))
        except (OSError, UnicodeError) as fault:
            settle = _failed(found, fault if isinstance(fault, OSError) else OSError(str(fault)))
        # The loop may have been closed meanwhile; then nobody waits.
        with contextlib.suppress(RuntimeError):
            found.get_loop().call_soon_threadsafe(settle)


def _ask_system(host: str, port: int) -> tuple[str, ...]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


def _settled(found: "asyncio.Future[tuple[str, ...]]", addresses: tuple[str, ...]) -> Callable[[], None]:
    return lambda: found.set_result(addresses)


def _failed(found: "asyncio.Future[tuple[str, ...]]", fault: OSError) -> Callable[[], None]:
    return lambda: found.set_exception(fault)
