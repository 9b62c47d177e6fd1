"""What was wished of the link before its end is done, however late it comes; and it makes connections ever slower."""

import threading
from typing import Any

from acker_client.sources.rabbitmq.link import Link, Opened
from acker_client.sources.rabbitmq.opened import GOOD_S, ChannelLost


class Channel:
    """An open channel, of which something is wished at the worst moment: behind the look for wishes."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.acked: list[int] = []

    @property
    def is_open(self) -> bool:
        """Say that it is, and ask for an ack and for the end when this is looked at for the first time."""
        if not self.link._ending.is_set():
            self.link._opened.wishes.put(lambda opened: opened.inward.basic_ack(7))
            self.link._ending.set()
        return True

    def basic_ack(self, tag: int) -> None:
        """Take note."""
        self.acked.append(tag)


class Connection:
    """A connection on which nothing comes."""

    def process_data_events(self, *, time_limit: Any) -> None:
        """Come back at once."""

    def close(self) -> None:
        """Be closed."""


def test_an_ack_that_is_wished_right_before_the_end_is_sent() -> None:
    link = Link("amqp://127.0.0.1", "queue", take=print, lost=print)
    channel = Channel(link)
    link._opened = Opened(number=1, connection=Connection(), inward=channel, outward=channel)
    link._work(link._opened)
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
    link, patient = Link("amqp://127.0.0.1", "queue", take=print, lost=print), Patient()
    link._ending = patient
    link._open = lambda number: Opened(number=number, connection=Connection())  # type: ignore[method-assign]
    opened: Any = link._open(1)
    for _ in range(10):
        link._replace(opened, ChannelLost("no exchange 'nowhere'"))
        opened = link._opened
    assert patient.waits[0] <= 0.05
    assert min(patient.waits[7:]) >= 2.5
    opened.since_s -= GOOD_S
    link._replace(opened, ChannelLost("the broker stops"))
    assert patient.waits[-1] <= 0.05
