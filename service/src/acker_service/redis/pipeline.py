"""One connection to Redis on which several round trips are in flight.

A connection of the pool serves one round trip at a time, and redis-py sets up timeouts and tasks for each. Here
redis-py connects and logs in. From then on the commands of a round trip are written at once, and the replies, which
come in the order of the commands, are read in callbacks of the transport.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import hiredis
from redis._parsers import BaseParser
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import InvalidResponse
from redis.exceptions import TimeoutError as RedisTimeoutError

from acker_service.background import called_back, cancel_and_wait
from acker_service.redis.calls import Command

Answered = Callable[[list[Any] | Exception], None]
"""Called with the replies of a round trip in the order of its commands, or with the error that kept them away."""


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

    def begin(self, commands: Sequence[Command], answered: Answered) -> bool:
        """Write commands on the open connection, and call ``answered`` once; False if none is open: nothing is sent."""
        session = self._session
        if session is None or session.is_closed:
            return False
        session.begin(commands, answered)
        return True

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands, and give their replies; an error of a command is among the replies.

        Raises redis-py's errors of the connection.
        """
        session = self._session
        if session is None or session.is_closed:
            session = await self._connected()
        replies: list[Any] | Exception = await called_back(partial(session.begin, commands))
        if isinstance(replies, Exception):
            raise replies
        return replies

    async def close(self) -> None:
        """Close the connection for good; what is not answered fails."""
        self._is_closed = True
        if self._connecting is not None:
            await cancel_and_wait(self._connecting)
        if self._session is not None:
            self._session.close()

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


class _RoundTrip:
    """Commands that were written. ``deadline`` is the time of the loop by which the next reply has to be there."""

    __slots__ = ("answered", "count", "deadline", "replies")

    def __init__(self, count: int, deadline: float, answered: Answered) -> None:
        self.count = count
        self.deadline = deadline
        self.answered = answered
        self.replies: list[Any] = []


class _Session(asyncio.Protocol):
    """An open connection, until it is closed for whatever reason; it takes the transport over from redis-py."""

    def __init__(self, connection: AbstractConnection, timeout: float | None) -> None:
        self._timeout = math.inf if timeout is None else timeout
        self._loop = asyncio.get_running_loop()
        self._unanswered: deque[_RoundTrip] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._reader = hiredis.Reader(protocolError=InvalidResponse, replyError=BaseParser.parse_error)
        self.is_closed = False
        # Its writer is kept: Python 3.13 closes the transport of one that nobody refers to.
        taken: Any = connection
        self._writer, taken._reader, taken._writer = taken._writer, None, None  # noqa: SLF001 - no other way to them
        self._transport: asyncio.Transport = self._writer.transport
        self._transport.set_protocol(self)

    def begin(self, commands: Sequence[Command], answered: Answered) -> None:
        """Write commands, and call ``answered`` once, maybe before this returns."""
        if self.is_closed or self._transport.is_closing():
            answered(RedisConnectionError("the connection was closed"))
            return
        pack = hiredis.pack_command
        try:
            packed: Any = pack(commands[0]) if len(commands) == 1 else b"".join(map(pack, commands))  # type: ignore[arg-type]
        except Exception as error:  # noqa: BLE001 - what is not written must not wait for a reply: it would take another's
            answered(error)
            return
        deadline = self._loop.time() + self._timeout
        self._unanswered.append(_RoundTrip(len(commands), deadline, answered))
        if self._timer is None and self._timeout < math.inf:
            self._timer = self._loop.call_at(deadline, self._check_deadlines)
        try:
            self._transport.write(packed)
        except RuntimeError:  # uvloop's, where the server has reset the connection
            self._end(RedisConnectionError("the connection was reset"))

    def close(self) -> None:
        """Close the connection; what is not answered fails."""
        self._end(RedisConnectionError("the connection is closed"))

    def data_received(self, data: bytes) -> None:
        """Read replies, and call those that wait for them."""
        reader, unanswered = self._reader, self._unanswered
        try:
            reader.feed(data)
            while not self.is_closed and (reply := reader.gets()) is not False:
                if isinstance(reply, RedisConnectionError):  # of a server that loads its data, or refuses the login
                    raise reply
                if not unanswered:
                    raise InvalidResponse("a reply came to no command")
                first = unanswered[0]
                first.replies.append(reply)
                if len(first.replies) < first.count:
                    first.deadline = self._loop.time() + self._timeout
                    continue
                unanswered.popleft()
                first.answered(first.replies)
        except (RedisConnectionError, InvalidResponse) as error:
            self._end(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let all fail that is not answered."""
        what = "is closed" if exc is None else f"was lost: {exc}"
        self._end(RedisConnectionError(f"the connection {what}"))

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
        """Close the connection, and let all fail that is not answered."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._transport.abort()
        unanswered, self._unanswered = self._unanswered, deque()
        for trip in unanswered:
            trip.answered(error)
