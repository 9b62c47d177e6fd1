"""Knows an open connection to RabbitMQ and its two channels, and what says that they are lost."""

import contextlib
import queue
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pika.exceptions import AMQPError


class ChannelLost(Exception):
    """The channel is gone while the connection is not."""


LOST = (AMQPError, OSError, ChannelLost)
"""What says that there is no connection, or that it is of no use any more."""


@dataclass(slots=True, kw_only=True)
class Opened:
    """A connection with two channels: one delivers, with its number; through the other children are sent on."""

    number: int
    connection: Any
    inward: Any = None
    outward: Any = None
    consumer: str = ""
    cancelled: bool = False
    wishes: "queue.SimpleQueue[Callable[[Opened], object]]" = field(default_factory=queue.SimpleQueue)

    def check(self) -> None:
        """Raise `ChannelLost` where nothing would come any more."""
        if self.cancelled or not (self.inward.is_open and self.outward.is_open):
            raise ChannelLost("the consumer was cancelled" if self.cancelled else "the broker has closed a channel")


def close(connection: Any) -> None:
    """Close a connection."""
    with contextlib.suppress(*LOST):  # of one that is closed already, pika says so by an AMQPError
        connection.close()
