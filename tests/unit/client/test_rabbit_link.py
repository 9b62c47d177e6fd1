"""What was wished of the link before its end is done, however late it comes."""

from typing import Any

from acker_client.sources.rabbitmq.link import Link, Opened


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


def test_an_ack_that_is_wished_right_before_the_end_is_sent() -> None:
    link = Link("amqp://127.0.0.1", "queue", take=print, lost=print)
    channel = Channel(link)
    link._opened = Opened(number=1, connection=Connection(), inward=channel, outward=channel)
    link._work(link._opened)
    assert channel.acked == [7]
