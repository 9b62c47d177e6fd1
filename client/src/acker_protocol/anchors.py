"""The anchors of a message and its header, ``Acker-Anchors: 00 <topology> <root>-<edge>[,<root>-<edge>…]``.

``00`` is the version. The topology appears once, so a message belongs to one topology; it has at most 64 anchors.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from acker_protocol.errors import InvalidHeader, TooManyAnchors, UsageError
from acker_protocol.ids import format_id, parse_id
from acker_protocol.routes import ANCHORS
from acker_protocol.wire import fields

VERSION = "00"
MAX_ANCHORS = 64

ANCHOR_LENGTH = 33
"""Characters of a root id, a dash and an edge id."""
_LOWER_NAME = ANCHORS.lower()


def _wsgi_name(header: str) -> str:
    """Return a header's name in the environment of WSGI and CGI."""
    return f"HTTP_{header.upper().replace('-', '_')}"


WSGI_NAME = _wsgi_name(ANCHORS)

T = TypeVar("T")

Headers = Mapping[str, Any] | Iterable[tuple[Any, Any]] | None
"""Headers as libraries give them: a mapping or pairs, text or bytes, lists of these, or None; or WSGI's environment."""


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
        check_count(len(self.anchors))

    @property
    def ids(self) -> tuple[int, ...]:
        """The root id and the edge id of each anchor in turn."""
        return tuple(id_ for anchor in self.anchors for id_ in (anchor.root_id, anchor.edge_id))

    def headers(self) -> dict[str, str]:
        """Return the header as a dict; empty for a message that is not tracked. Changes nothing."""
        return write_header(header_prefix(self.topology), self.ids)

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


def check_count(anchors: int) -> None:
    """Raise `TooManyAnchors` if one message cannot carry so many."""
    if anchors > MAX_ANCHORS:
        raise TooManyAnchors(
            f"a message carries at most {MAX_ANCHORS} anchors, this one would carry {anchors}; "
            "hold the inputs unacked until the aggregate is done, and send it without them"
        )


def from_ids(topology: str, ids: tuple[int, ...]) -> Anchors:
    """Make anchors of the root id and the edge id of each in turn. Raises `TooManyAnchors`."""
    pairs = zip(ids[::2], ids[1::2], strict=True)
    return Anchors(topology=topology, anchors=tuple(Anchor(root_id=root, edge_id=edge) for root, edge in pairs))


def header_prefix(topology: str) -> str:
    """Return the beginning of the header's value, up to the first anchor."""
    return f"{VERSION} {topology} "


def write_header(prefix: str, ids: Sequence[int]) -> dict[str, str]:
    """Return the header as a dict, of the root id and the edge id of each anchor in turn; empty without any."""
    listed = ",".join(f"{root:016x}-{edge:016x}" for root, edge in zip(ids[::2], ids[1::2], strict=True))
    return {ANCHORS: prefix + listed} if listed else {}


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
    value = anchors_value(headers)
    return None if value is None else parse_anchors(value)


def anchors_value(headers: Headers) -> str | None:
    """Return the value of the header of a message, None without the header.

    Raises `InvalidHeader` where it is given several times, and `UsageError` for what are no headers.
    """
    values = header_values(headers, ANCHORS)
    if len(values) > 1:
        raise InvalidHeader(f"{ANCHORS} is given {len(values)} times; a message carries it once")
    return values[0] if values else None


def header_values(headers: Headers, header: str) -> list[str]:
    """Return the values of a header, whose name is given in any case, or in WSGI's environment as it is named there.

    Raises `UsageError` for what are no headers.
    """
    lower, wsgi = header.lower(), _wsgi_name(header)
    try:
        pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
        found = [value for name, value in pairs if _is_named(name, lower, wsgi)]
    except (TypeError, ValueError):
        raise UsageError(f"headers must be a mapping or pairs, not {fields.abbreviate(repr(headers))}") from None
    return [_text(each) for value in found for each in (value if isinstance(value, list | tuple) else (value,))]


def topology_of(headers: Headers) -> str | None:
    """Return the topology that a message belongs to, None without the header. Raises `InvalidHeader`."""
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


def _others(pairs: Iterable[tuple[str, T]]) -> Iterable[tuple[str, T]]:
    return ((name, value) for name, value in pairs if not is_anchors(name))


def is_anchors(name: Any) -> bool:
    """Whether this is the header's name, in any case, or its name in WSGI's environment."""
    return _is_named(name, _LOWER_NAME, WSGI_NAME)


def _is_named(name: Any, lower: str, wsgi: str) -> bool:
    """Whether this is a header's name, in any case, or its name in WSGI's environment.

    There it is text in upper case; an ASGI application gets a request's header of that name as bytes in lower case.
    Whoever removes the one header at the edge of a network lets the other one in.
    """
    return name == wsgi or _text(name).lower() == lower


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
