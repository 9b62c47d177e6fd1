"""The store as a whole: its rooms, opened on one server and closed together."""

import logging

from acker_protocol.problems import StoreUnavailable

from acker_service.store.counts import CountsReader
from acker_service.store.hints import Hints
from acker_service.store.mailboxes import Mailboxes
from acker_service.store.requests import Requests
from acker_service.store.roots import Roots
from acker_service.store.server import Server
from acker_service.store.spouts import Spouts
from acker_service.store.ticks import Ticks
from acker_service.store.topologies import DEFAULT, Topologies

_log = logging.getLogger(__name__)


class Store:
    """All that is remembered. ``window_ms`` is how long a request's idempotency key is remembered at least."""

    def __init__(self, url: str, *, window_ms: int) -> None:
        self.server = Server(url)
        self.window_ms = window_ms
        self.topologies = Topologies(self.server, window_ms=window_ms)
        self.spouts = Spouts(self.server, self.topologies)
        self.requests = Requests(self.server, self.topologies, self.spouts)
        self.roots = Roots(self.topologies, self.spouts)
        self.counts = CountsReader(self.topologies)
        self.mailboxes = Mailboxes(self.topologies)
        self.ticks = Ticks(self.server, self.topologies)
        self.hints = Hints(self.server, self.topologies)

    async def open(self) -> None:
        """Put the function library into Redis and make the default topology.

        A store that is away is waited for by whoever uses it: opening logs that and goes on. Raises `ValueError` for a
        store that must not be used.
        """
        try:
            await self._check_policy()
            await self.server.load()
            await self.topologies.read(DEFAULT)
        except StoreUnavailable as fault:
            _log.warning("the store is not there yet: %s", fault.detail)

    async def answers(self) -> bool:
        """Whether Redis answers now."""
        try:
            await self.server.command("PING")
        except StoreUnavailable:
            return False
        return True

    async def close(self) -> None:
        """Close all connections."""
        await self.hints.stop()
        await self.server.close()

    async def _check_policy(self) -> None:
        """Refuse a store that evicts: a pending root that vanishes is a message that is lost."""
        memory = await self.server.command("INFO", "memory")
        policy = memory.get("maxmemory_policy", "noeviction")
        if policy != "noeviction":
            raise ValueError(f"Redis has maxmemory-policy {policy}, which evicts pending roots; set it to noeviction")
