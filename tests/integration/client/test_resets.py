"""A server that resets connections as they are made is away, to everybody on uvloop; so is one that talks nonsense.

One that is killed with connections in its backlog resets them so.
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator

import pytest
from acker_client import AsyncAcker, RetriesExhausted
from acker_client._core.subscription import Disconnected
from acker_client.asyncio._redis import AsyncRedisConnection, connect
from acker_client.sync._redis import RedisConnection
from acker_protocol.errors import StoreUnavailable
from acker_service.delivery.egress import EgressPolicy
from acker_service.delivery.payload import WebhookMessage
from acker_service.delivery.response import ResultKind
from acker_service.delivery.webhook_client import RequestLimits, WebhookClient
from acker_service.host_names import read_hosts
from acker_service.redis import node
from acker_service.redis.calls import Call, nothing
from acker_service.redis.node import Node, probe
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

pytestmark = pytest.mark.anyio

PATIENCE_S = 60.0
TOGETHER, EACH = 40, 25
"""So many ask at once, so often: enough that some write when the reset has been seen, and some when it has not."""

PING = Call(key="", name="PING", command=("PING",), decode=nothing)
NONSENSE = (b"*x\r\n", b"$-5\r\n", b":x\r\n", b"HTTP/1.1 200 OK\r\n\r\n")


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
def port() -> Iterator[int]:
    """A server that resets every connection at once."""
    with serving(_reset) as port:
        yield port


@pytest.fixture
def url(port: int) -> str:
    return f"redis://127.0.0.1:{port}/0"


@contextlib.contextmanager
def serving(treat: Callable[[socket.socket], None]) -> Iterator[int]:
    """Serve connections one after the other, and yield the port."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        thread = threading.Thread(target=_serve, args=[server, treat])
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


async def test_a_command_to_it_is_a_fault_of_the_connection(url: str) -> None:
    server = Node(url, timeout=PATIENCE_S)
    await _always(RedisConnectionError, lambda: server.run([PING, PING]))
    await _always(StoreUnavailable, lambda: server.command("PING"))
    await server.close()


async def test_a_probe_of_it_is_a_fault_of_the_connection(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "PROBE_S", PATIENCE_S)
    await _always(RedisConnectionError, lambda: probe(url, "PING"))


async def test_a_subscription_at_it_hears_that_it_is_away(url: str) -> None:
    async def listen() -> None:
        await _subscribed(await connect(url, PATIENCE_S))

    await _always(Disconnected, listen)


async def test_a_request_to_it_is_tried_as_long_as_the_terms_say(port: int) -> None:
    async with AsyncAcker(f"http://127.0.0.1:{port}", linger=0, retry_timeout=0) as acker:

        async def emit() -> None:
            async with acker.shared_spout("orders").emit(message_id="1"):
                pass

        await _always(RetriesExhausted, emit)


async def test_a_post_to_it_is_one_to_be_made_again(port: int) -> None:
    client = WebhookClient(
        egress_policy=EgressPolicy(networks=(), hosts=read_hosts("127.0.0.1")),
        limits=RequestLimits(max_in_flight=TOGETHER),
    )
    message = WebhookMessage(message_id="1", body=b"{}", ids=("1",))
    async with client.endpoint(f"http://127.0.0.1:{port}/") as endpoint:

        async def post() -> None:
            result = await endpoint.post(message, secrets=())
            assert result.kind is ResultKind.RETRY
            assert "unexpectedly" not in (result.error or "")

        await _often(post)


@pytest.mark.parametrize(
    "said", [b"*x\r\n", b"$-5\r\n", b":x\r\n", b"-MOVED\r\n", b"HTTP/1.1 200 OK\r\n\r\n"], ids=repr
)
@pytest.mark.parametrize("login", ["", ":secret@"])
async def test_what_does_not_speak_redis_is_a_fault_like_any_other(login: str, said: bytes) -> None:
    with serving(lambda connection: _say(connection, said)) as port:
        url = f"redis://{login}127.0.0.1:{port}/0"
        server = Node(url, timeout=PATIENCE_S)
        for error, call in (
            (RedisError, lambda: server.run([PING, PING])),
            (StoreUnavailable, lambda: server.command("PING")),
            (StoreUnavailable, server.load),
            (StoreUnavailable, lambda: server.listen(["channel"], print)),
            (RedisError, lambda: probe(url, "PING")),
        ):
            with pytest.raises(error):
                await call()
        await server.close()


@pytest.mark.parametrize("said", NONSENSE, ids=repr)
async def test_what_does_not_speak_redis_cannot_be_subscribed_at(said: bytes) -> None:
    with serving(lambda connection: _say(connection, said)) as port:
        with pytest.raises(Disconnected):
            await _subscribed(await connect(f"redis://127.0.0.1:{port}/0", PATIENCE_S))
        with pytest.raises(Disconnected):
            _subscribed_here(RedisConnection(f"redis://127.0.0.1:{port}/0", PATIENCE_S))


async def _subscribed(connection: AsyncRedisConnection) -> None:
    try:
        await connection.send("SUBSCRIBE", "channel")
        await connection.read(PATIENCE_S)
    finally:
        await connection.close()


def _subscribed_here(connection: RedisConnection) -> None:
    try:
        connection.send("SUBSCRIBE", "channel")
        connection.read(PATIENCE_S)
    finally:
        connection.close()


async def _always(error: type[Exception], call: Callable[[], Awaitable[object]]) -> None:
    """See every one of many calls end with such a fault."""

    async def ask() -> None:
        with pytest.raises(error):
            await call()

    await _often(ask)


async def _often(call: Callable[[], Awaitable[object]]) -> None:
    async def ask() -> None:
        for _ in range(EACH):
            await call()

    async with asyncio.TaskGroup() as group:
        for _ in range(TOGETHER):
            group.create_task(ask())


def _serve(server: socket.socket, treat: Callable[[socket.socket], None]) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = server.accept()
            with contextlib.suppress(OSError):
                treat(connection)


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _say(connection: socket.socket, said: bytes) -> None:
    """Answer the first that is asked, a few times over, and end."""
    with connection:
        connection.recv(65_536)
        connection.sendall(said * 4)
