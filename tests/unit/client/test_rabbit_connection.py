"""Tests that commands sent before the end are run, however late they come, and that reconnecting slows down."""

import threading
from typing import Any

from acker_client.sources.rabbitmq.connection import STABLE_S, ChannelLost, ChannelPair, Connection


class Channel:
    """An open channel, to which a command is sent at the worst moment: after the check for commands."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.acked: list[int] = []

    @property
    def is_open(self) -> bool:
        """Say that it is, and ask for an ack and for the end when this is looked at for the first time."""
        if not self.connection._closing.is_set():
            self.connection._channels.commands.put(lambda pair: pair.consume_channel.basic_ack(7))
            self.connection._closing.set()
        return True

    def basic_ack(self, tag: int) -> None:
        """Take note."""
        self.acked.append(tag)


class Pika:
    """A connection on which nothing comes."""

    def process_data_events(self, *, time_limit: Any) -> None:
        """Come back at once."""

    def close(self) -> None:
        """Be closed."""


def test_an_ack_that_is_commanded_right_before_the_end_is_sent() -> None:
    connection = Connection("amqp://127.0.0.1", "queue", on_delivery=print, on_lost=print)
    channel = Channel(connection)
    connection._channels = ChannelPair(number=1, connection=Pika(), consume_channel=channel, publish_channel=channel)
    connection._work(connection._channels)
    assert channel.acked == [7]


class Patient(threading.Event):
    """An end that does not come, and is not waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        """Take note."""
        self.waits.append(timeout or 0.0)
        return False


def test_a_channel_that_is_lost_again_and_again_is_made_ever_more_seldom() -> None:
    """As where a child is published to an exchange that does not exist."""
    connection, patient = Connection("amqp://127.0.0.1", "queue", on_delivery=print, on_lost=print), Patient()
    connection._closing = patient
    connection._open = lambda number: ChannelPair(number=number, connection=Pika())  # type: ignore[method-assign]
    opened: Any = connection._open(1)
    for _ in range(10):
        connection._replace(opened, ChannelLost("no exchange 'nowhere'"))
        opened = connection._channels
    assert patient.waits[0] <= 0.05
    assert min(patient.waits[7:]) >= 2.5
    opened.opened_at_s -= STABLE_S
    connection._replace(opened, ChannelLost("the broker stops"))
    assert patient.waits[-1] <= 0.05
