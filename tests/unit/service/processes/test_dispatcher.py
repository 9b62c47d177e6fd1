"""Tests to which process a connection is passed."""

import contextlib
import socket
from collections.abc import Iterator

import pytest
from acker_service.processes.dispatcher import Dispatcher

from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


class FakeProcess:
    """Keeps the connections that it is passed."""

    def __init__(self, *, open_connections: int = 0) -> None:
        self.open_connections = open_connections
        self.passed = 0
        self.takes = True
        self.connections: list[socket.socket] = []

    def pass_on(self, connection: socket.socket) -> bool:
        if self.takes:
            self.connections.append(connection.dup())
        return self.takes


@pytest.fixture
def bound() -> Iterator[socket.socket]:
    with socket.socket() as unbound:
        unbound.bind(("127.0.0.1", 0))
        yield unbound


@contextlib.contextmanager
def clients(bound: socket.socket, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(bound.getsockname())) for _ in range(count)]


@contextlib.contextmanager
def dispatching(bound: socket.socket, *processes: FakeProcess) -> Iterator[list[FakeProcess]]:
    """Dispatch to these processes; the list that is given may be changed meanwhile."""
    receivers = list(processes)
    dispatcher = Dispatcher([bound], lambda: receivers)
    dispatcher.start(128)
    try:
        yield receivers
    finally:
        dispatcher.close()
        for process in processes:
            for connection in process.connections:
                connection.close()


async def passed(*processes: FakeProcess, count: int) -> list[int]:
    async def all_are_passed() -> bool:
        return sum(len(process.connections) for process in processes) == count

    await eventually(all_are_passed, within=10)
    return [len(process.connections) for process in processes]


async def test_processes_get_connections_in_turn(bound: socket.socket) -> None:
    one, other = FakeProcess(), FakeProcess()
    with dispatching(bound, one, other), clients(bound, 32):
        assert await passed(one, other, count=32) == [16, 16]


async def test_a_process_that_has_fewer_is_filled_first(bound: socket.socket) -> None:
    one, other = FakeProcess(open_connections=6), FakeProcess()
    with dispatching(bound, one, other), clients(bound, 10):
        assert await passed(one, other, count=10) == [2, 8]


async def test_a_process_that_cannot_take_a_connection_is_passed_over(bound: socket.socket) -> None:
    one, other = FakeProcess(), FakeProcess()
    one.takes = False
    with dispatching(bound, one, other), clients(bound, 4):
        assert await passed(one, other, count=4) == [0, 4]


async def test_connections_wait_while_no_process_serves(bound: socket.socket) -> None:
    one = FakeProcess()
    with dispatching(bound) as receivers, clients(bound, 3) as waiting:
        waiting[0].settimeout(0.3)
        with pytest.raises(TimeoutError):
            waiting[0].recv(1)
        receivers.append(one)
        assert await passed(one, count=3) == [3]
        for connection in one.connections:
            connection.sendall(b"x")
        waiting[0].settimeout(10)
        assert waiting[0].recv(1) == b"x"
        for connection in one.connections:
            connection.close()


async def test_after_the_end_connections_are_refused(bound: socket.socket) -> None:
    where = bound.getsockname()
    with dispatching(bound, FakeProcess()):
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(where)
