"""The anchors of a message and its header, ``Acker-Anchors: 00 <topology> <root>-<edge>[,<root>-<edge>…]``.

``00`` is the version. The topology appears once, so a message belongs to one topology; it has at most 64 anchors.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from acker_protocol.errors import InvalidHeader, TooManyAnchors, UsageError
from acker_protocol.ids import format_id, parse_id
from acker_protocol.routes import ANCHORS
from acker_protocol.wire import fields

VERSION = "00"
MAX_ANCHORS = 64

T = TypeVar("T")

Headers = Mapping[str, Any] | Iterable[tuple[Any, Any]] | None
"""Headers as libraries give them: a mapping or pairs, text or bytes, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """One edge of one root."""

    root_id: int
    edge_id: int

    def __str__(self) -> str:
        return f"{format_id(self.root_id)}-{format_id(self.edge_id)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchors:
    """The anchors of one message for one consumer; empty if it is not tracked. Raises `TooManyAnchors` above 64."""

    topology: str
    anchors: tuple[Anchor, ...] = ()

    def __post_init__(self) -> None:
        if len(self.anchors) > MAX_ANCHORS:
            raise TooManyAnchors(
                f"a message carries at most {MAX_ANCHORS} anchors, this one would carry {len(self.anchors)}; "
                "hold the inputs unacked until the aggregate is done, and send it without them"
            )

    def headers(self) -> dict[str, str]:
        """Give the header as a dict; empty for a message that is not tracked. Changes nothing."""
        if not self.anchors:
            return {}
        return {ANCHORS: f"{VERSION} {self.topology} {','.join(map(str, self.anchors))}"}

    def amqp_headers(self, others: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Add the header to others, for the ``headers`` of pika or aio-pika.

        The others (``x-death``, numbers, tables) stay as they are. Anchors among them belong to the message that is
        forwarded, so they are removed.
        """
        return dict(_others((others or {}).items())) | self.headers()

    def kafka_headers(self, others: Iterable[tuple[str, bytes | None]] | None = None) -> list[tuple[str, bytes | None]]:
        """Add the header to others in the same way, as the pairs that Kafka's libraries take and give."""
        own = [(name, value.encode()) for name, value in self.headers().items()]
        return [*_others(others or ()), *own]


def read_anchors(headers: Headers, *, topology: str) -> Anchors:
    """Read the header of a message of this topology; without the header, no anchors. Raises `InvalidHeader`."""
    anchors = find_anchors(headers)
    if anchors is None:
        return Anchors(topology=topology)
    if anchors.topology != topology:
        raise InvalidHeader(f"{ANCHORS} is of topology {anchors.topology!r}, this acker works for {topology!r}")
    return anchors


def find_anchors(headers: Headers) -> Anchors | None:
    """Read the header of a message of any topology, None without the header.

    Raises `InvalidHeader`, and `UsageError` for what are no headers.
    """
    try:
        values = list(_values(headers))
    except (TypeError, ValueError):
        raise UsageError(f"headers must be a mapping or pairs, not {fields.abbreviate(repr(headers))}") from None
    if len(values) > 1:
        raise InvalidHeader(f"{ANCHORS} is given {len(values)} times; a message carries it once")
    return parse_anchors(values[0]) if values else None


def topology_of(headers: Headers) -> str | None:
    """Give the topology that a message belongs to, None without the header. Raises `InvalidHeader`."""
    anchors = find_anchors(headers)
    return None if anchors is None else anchors.topology


def parse_anchors(text: str) -> Anchors:
    """Read the value of the header. Raises `InvalidHeader`."""
    version, _, rest = text.strip().partition(" ")
    topology, _, listed = rest.partition(" ")
    if version != VERSION:
        raise InvalidHeader(f"{ANCHORS} must begin with version {VERSION}: {fields.abbreviate(text)}")
    try:
        anchors = tuple(_anchor(item) for item in listed.split(","))
        if len(anchors) > 1 and len(set(anchors)) < len(anchors):
            raise ValueError("must not name an anchor twice")
        return Anchors(topology=fields.name(topology), anchors=anchors)
    except ValueError as error:
        raise InvalidHeader(f"{ANCHORS} {error}: {fields.abbreviate(text)}") from None


def _anchor(text: str) -> Anchor:
    root, _, edge = text.partition("-")
    return Anchor(root_id=parse_id(root), edge_id=parse_id(edge))


def _values(headers: Headers) -> Iterable[str]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    return (_text(value) for name, value in pairs if _is_anchors(name))


def _others(pairs: Iterable[tuple[str, T]]) -> Iterable[tuple[str, T]]:
    return ((name, value) for name, value in pairs if not _is_anchors(name))


def _is_anchors(name: Any) -> bool:
    """Whether this is the header's name, in any case."""
    return _text(name).lower() == ANCHORS.lower()


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
