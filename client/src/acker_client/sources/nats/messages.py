"""A message of NATS JetStream."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acker_protocol.anchors import Anchors

Publisher = Callable[["Message", str, bytes, Mapping[str, str]], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Message:
    """One message as it was delivered; ``attempt`` counts its deliveries to the consumer, this one included.

    ``id`` is its sequence number in the stream.
    """

    id: str
    subject: str
    data: bytes
    headers: Mapping[str, str]
    attempt: int
    reply: str = field(repr=False)
    publisher: Publisher = field(repr=False)

    def publish(
        self, subject: str, data: bytes, anchors: "Anchors", *, headers: Mapping[str, str] | None = None
    ) -> None:
        """Publish a child to the stream that has its subject, through the same connection; the anchors are added.

        It is published soon afterwards, and again until the stream confirms it or this message is settled. Raises at
        once what nats-py has for a child that no stream can take: `MaxPayloadError` for one that is larger, with its
        headers, than the server's ``max_payload``, `BadSubjectError`, `BadHeaderError`.
        """
        anchored = anchors.headers()
        kept = {name: value for name, value in (headers or {}).items() if name.lower() not in map(str.lower, anchored)}
        self.publisher(self, subject, data, kept | anchored)
