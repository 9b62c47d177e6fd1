"""A server that resets connections as they are made is away, to everybody who speaks Redis on uvloop.

So is one that is killed with connections in its backlog.
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator

import pytest
from acker_client.subscription import Away
from acker_client.wires import AsyncWire
from acker_protocol.problems import StoreUnavailable
from acker_service.store.node import Node, probe
from redis.exceptions import ConnectionError as RedisConnectionError

pytestmark = pytest.mark.anyio

TOGETHER, EACH = 40, 25
"""So many ask at once, so often: enough that some write when the reset has been seen, and some when it has not."""


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
def url() -> Iterator[str]:
    """A server that resets every connection at once."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        thread = threading.Thread(target=_reset, args=[server])
        thread.start()
        try:
            yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


async def test_a_command_to_it_is_a_fault_of_the_connection(url: str) -> None:
    node = Node(url)
    await _always(RedisConnectionError, lambda: node.run([("PING",), ("PING",)]))
    await _always(StoreUnavailable, lambda: node.command("PING"))
    await node.close()


async def test_a_probe_of_it_is_a_fault_of_the_connection(url: str) -> None:
    await _always(RedisConnectionError, lambda: probe(url, "PING"))


async def test_a_subscription_at_it_hears_that_it_is_away(url: str) -> None:
    async def listen() -> None:
        wire = await AsyncWire.open(url, 5.0)
        try:
            await wire.send("SUBSCRIBE", "channel")
            await wire.read(5.0)
        finally:
            await wire.close()

    await _always(Away, listen)


async def _always(fault: type[Exception], call: Callable[[], Awaitable[object]]) -> None:
    """See every one of many calls end with such a fault."""

    async def ask() -> None:
        for _ in range(EACH):
            with pytest.raises(fault):
                await call()

    async with asyncio.TaskGroup() as group:
        for _ in range(TOGETHER):
            group.create_task(ask())


def _reset(server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = server.accept()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
