"""Sends answers to a client: gives up a client that does not read them, and closes in order; pauses its requests."""

import asyncio
import fcntl
import struct
import termios
from collections.abc import Callable, Sized
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl

WHOLE_WITHIN = 4
"""How many times the timeout an answer may take until the client has all of it, but for the last 64 KiB."""
_CHECKS = 4
"""Checks per timeout."""


class PipelineFlowControl(FlowControl):
    """uvicorn's flow control, but reading stays paused while a request waits for the answer to an earlier one."""

    def __init__(self, transport: asyncio.Transport, pipeline: Sized) -> None:
        super().__init__(transport)
        self._pipeline = pipeline

    def resume_reading(self) -> None:
        """Resume reading, unless a request waits."""
        if not self._pipeline:
            super().resume_reading()

    @property
    def unsent(self) -> int:
        """How many bytes of its answers this process holds, which the client has not taken."""
        return self._transport.get_write_buffer_size()

    def give_up(self) -> None:
        """Close the connection, and forget what the client has not taken."""
        self._transport.abort()


class ClientTransport:
    """The transport as uvicorn sees it: its ``close`` asks the connection, which calls `close_now` or `linger`.

    An answer is given up, and the connection with it, if the client takes nothing of it for ``timeout_s``, or not all
    of it within four times that.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        *,
        loop: asyncio.AbstractEventLoop,
        timeout_s: float,
        close: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._timeout_s = timeout_s
        self._lingering = False
        self._timer: asyncio.TimerHandle | None = None
        self.write = transport.write  # an attribute, so that an answer costs no further call
        self.close = close

    def __getattr__(self, name: str) -> Any:
        """Everything else is the transport's own."""
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Whether no further request is served."""
        return self._lingering or self._transport.is_closing()

    def linger(self) -> None:
        """End the answers, but go on receiving: a close with unread input would discard the answer at the client."""
        self._lingering = True
        self._transport.write_eof()

    def close_now(self) -> None:
        """Close once the client has taken what is written."""
        self._transport.close()
        self.watch()

    def watch(self) -> None:
        """Give the connection up if the client does not take what is written."""
        if self._timer is None and self._transport.get_write_buffer_size():
            now = self._loop.time()
            self._started = now
            self._taken_at = now
            self._left = self._untaken()
            self._timer = self._loop.call_later(self._timeout_s / _CHECKS, self._check)

    def stop_watch(self) -> None:
        """The client has taken what was written, or is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        if not self._transport.get_write_buffer_size():
            self._timer = None
            return
        now, left = self._loop.time(), self._untaken()
        if left < self._left:
            self._taken_at = now
        self._left = left
        if now - self._taken_at >= self._timeout_s or now - self._started >= WHOLE_WITHIN * self._timeout_s:
            self._timer = None
            self._transport.abort()
        else:
            self._timer = self._loop.call_later(self._timeout_s / _CHECKS, self._check)

    def _untaken(self) -> int:
        """Count the bytes that the client's machine has not acknowledged: in this process and in the kernel.

        The kernel takes more only once a third of its own buffer is free, which may be a megabyte: what this process
        holds would not show that a slow client reads.
        """
        return self._transport.get_write_buffer_size() + _unacknowledged(self._transport.get_extra_info("socket"))


def _unacknowledged(socket: Any) -> int:
    """Read the size of the kernel's send queue; zero where there is none, or where the system does not say."""
    try:
        return int(struct.unpack("i", fcntl.ioctl(socket.fileno(), termios.TIOCOUTQ, b"\0" * 4))[0])
    except (AttributeError, OSError, ValueError):
        return 0
