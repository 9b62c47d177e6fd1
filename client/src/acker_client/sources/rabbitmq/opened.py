"""Knows an open connection to RabbitMQ and its two channels, and what says that they are lost."""

import contextlib
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pika.exceptions import AMQPError


class ChannelLost(Exception):
    """The channel is gone while the connection is not."""


LOST = (AMQPError, OSError, ChannelLost)
"""What says that there is no connection, or that it is of no use any more."""

GOOD_S = 30.0
"""A connection that stood for so long was good. One that is lost sooner may be lost by what is sent over it."""


@dataclass(slots=True, kw_only=True)
class Opened:
    """A connection with two channels: one delivers, with its number; through the other children are sent on."""

    number: int
    connection: Any
    inward: Any = None
    outward: Any = None
    consumer: str = ""
    cancelled: bool = False
    since_s: float = field(default_factory=time.monotonic)
    wishes: "queue.SimpleQueue[Callable[[Opened], object]]" = field(default_factory=queue.SimpleQueue)

    def check(self) -> None:
        """Raise `ChannelLost` where nothing would come any more."""
        if self.cancelled:
            raise ChannelLost("the consumer was cancelled")
        for channel in (self.inward, self.outward):
            if not channel.is_open:
                reason = channel._closing_reason  # noqa: SLF001 - pika tells it nowhere else
                raise ChannelLost(f"a channel was closed: {reason}")

    @property
    def was_good(self) -> bool:
        """Whether it stood for long."""
        return time.monotonic() - self.since_s >= GOOD_S


def close(connection: Any) -> None:
    """Close a connection."""
    with contextlib.suppress(*LOST):  # of one that is closed already, pika says so by an AMQPError
        connection.close()
