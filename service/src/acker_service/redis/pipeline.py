"""One connection to Redis on which several round trips are in flight.

A connection of the pool serves one round trip at a time, and redis-py sets up timeouts and tasks for each. Here the
commands of a round trip are written at once, and one task reads all replies, which come in the order of the commands.
"""

import asyncio
import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import hiredis
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import InvalidResponse, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from acker_service.background import cancel_and_wait
from acker_service.redis.calls import Command
from acker_service.redis.errors import normalized


class Pipeline:
    """Sends round trips on one connection, which is opened when it is needed.

    Any doubt closes the connection: a lost connection, a late reply, bytes that are no reply. All round trips that are
    not answered then fail with the same error, and Redis may have received them: nothing is sent twice. The next round
    trip opens another connection.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        """Take address, login and timeouts from a pool; its ``socket_timeout`` bounds the handshake and each reply."""
        self._class = pool.connection_class
        self._options = dict(pool.connection_kwargs)
        self._timeout: float | None = self._options.pop("socket_timeout", None)
        self._session: _Session | None = None
        self._connecting: asyncio.Task[_Session] | None = None
        self._is_closed = False

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands, and give their replies; an error of a command is among the replies.

        Raises redis-py's errors of the connection.
        """
        session = self._session
        if session is None or session.is_closed:
            session = await self._connected()
        return await session.send(commands)

    async def close(self) -> None:
        """Close the connection for good; what is not answered fails."""
        self._is_closed = True
        if self._connecting is not None:
            await cancel_and_wait(self._connecting)
        if self._session is not None:
            await self._session.close()

    async def _connected(self) -> "_Session":
        """Open a connection, one for all that wait for it."""
        if self._is_closed:
            raise RedisConnectionError("the connection is closed")
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
            self._connecting.add_done_callback(self._end_connecting)
        connecting = self._connecting
        await asyncio.wait([connecting])
        if connecting.cancelled():
            raise RedisConnectionError("the connection was closed while it was opened")
        return connecting.result()

    async def _connect(self) -> "_Session":
        connection = self._class(**self._options, socket_timeout=None)
        try:
            async with asyncio.timeout(self._timeout):
                await connection.connect()
        except TimeoutError:
            await connection.disconnect(nowait=True)
            raise RedisTimeoutError("Timeout connecting to server") from None
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        self._session = _Session(connection, self._timeout)
        return self._session

    def _end_connecting(self, connecting: "asyncio.Task[_Session]") -> None:
        self._connecting = None
        if not connecting.cancelled():
            connecting.exception()  # its waiters raise it; if all were cancelled, nobody does


@dataclass(slots=True, kw_only=True, eq=False)
class _RoundTrip:
    """Commands that were written. ``deadline`` is the time of the loop by which the next reply has to be there."""

    count: int
    deadline: float
    answered: "asyncio.Future[list[Any]]"
    replies: list[Any] = field(default_factory=list)


class _Session:
    """An open connection, until it is closed for whatever reason."""

    def __init__(self, connection: AbstractConnection, timeout: float | None) -> None:
        self._connection = connection
        self._timeout = math.inf if timeout is None else timeout
        self._loop = asyncio.get_running_loop()
        self._unanswered: deque[_RoundTrip] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._reading = asyncio.create_task(self._read())
        self.is_closed = False

    async def send(self, commands: Iterable[Command]) -> list[Any]:
        """Write commands and await their replies."""
        if self.is_closed or not self._connection.is_connected:
            raise RedisConnectionError("the connection was closed")
        packed = [hiredis.pack_command(command) for command in commands]  # type: ignore[arg-type]
        answered: asyncio.Future[list[Any]] = self._loop.create_future()
        deadline = self._loop.time() + self._timeout
        self._unanswered.append(_RoundTrip(count=len(packed), deadline=deadline, answered=answered))
        if self._timer is None and self._timeout < math.inf:
            self._timer = self._loop.call_at(deadline, self._check_deadlines)
        try:
            with normalized():  # the commands are written before anything waits; the wait is for a server that reads
                async with asyncio.timeout_at(deadline if deadline < math.inf else None):
                    await self._connection.send_packed_command(b"".join(packed), check_health=False)
        except TimeoutError:
            self._end(RedisTimeoutError("Timeout writing to the server"))
        except (RedisError, OSError) as error:
            self._end(error)
        except BaseException:
            answered.cancel()
            self._end(RedisConnectionError("the connection was closed while commands were written"))
            raise
        return await answered

    async def close(self) -> None:
        """Close the connection; what is not answered fails."""
        self._end(RedisConnectionError("the connection is closed"))
        await cancel_and_wait(self._reading)

    async def _read(self) -> None:
        """Read replies until the connection ends, then close it."""
        error: Exception = RedisConnectionError("the connection is closed")
        try:
            with normalized():
                await self._read_replies()
        except (RedisError, OSError) as caught:
            error = caught
        finally:
            self._fail(error)
            await self._connection.disconnect(nowait=True)

    async def _read_replies(self) -> None:
        while True:
            try:
                reply = await self._connection.read_response(timeout=math.inf, disconnect_on_error=False)
            except ResponseError as error:
                reply = error
            if not self._unanswered:
                raise InvalidResponse("a reply came to no command")
            first = self._unanswered[0]
            first.replies.append(reply)
            if len(first.replies) < first.count:
                first.deadline = self._loop.time() + self._timeout
                continue
            self._unanswered.popleft()
            if not first.answered.done():  # its caller may be cancelled
                first.answered.set_result(first.replies)

    def _check_deadlines(self) -> None:
        """Close the connection if a reply is late; else look again when the next one is due."""
        self._timer = None
        due = min((trip.deadline for trip in self._unanswered), default=None)
        if due is None:
            return
        if due <= self._loop.time():
            self._end(RedisTimeoutError("Timeout reading from the server"))
        else:
            self._timer = self._loop.call_at(due, self._check_deadlines)

    def _end(self, error: Exception) -> None:
        """Let all that is not answered fail, and close the connection."""
        self._fail(error)
        self._reading.cancel()

    def _fail(self, error: Exception) -> None:
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        unanswered, self._unanswered = self._unanswered, deque()
        for trip in unanswered:
            if not trip.answered.done():
                trip.answered.set_exception(error)
