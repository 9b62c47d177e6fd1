"""The anchors of a message and its header, ``Acker-Anchors: 00 <topology> <root>-<edge>[,<root>-<edge>…]``.

``00`` is the version. The topology appears once, so a message belongs to one topology; it has at most 64 anchors.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from acker_protocol.errors import InvalidHeader, TooManyAnchors, UsageError
from acker_protocol.ids import format_id, parse_id
from acker_protocol.routes import ANCHORS
from acker_protocol.wire import fields

VERSION = "00"
MAX_ANCHORS = 64

_ANCHOR_LENGTH = 33
"""Characters of a root id, a dash and an edge id."""
_NAME_LENGTH = len(ANCHORS)
_LOWER_NAME = ANCHORS.lower()
_unpack_one = struct.Struct(">QQ").unpack
_ABSENT = object()


def _wsgi_name(header: str) -> str:
    """Return a header's name in the environment of WSGI and CGI."""
    return f"HTTP_{header.upper().replace('-', '_')}"


_WSGI_NAME = _wsgi_name(ANCHORS)
_WSGI_NAME_LENGTH = len(_WSGI_NAME)

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
    if len(ids) == 2:
        return {ANCHORS: f"{prefix}{ids[0]:016x}-{ids[1]:016x}"}
    listed = ",".join(f"{root:016x}-{edge:016x}" for root, edge in zip(ids[::2], ids[1::2], strict=True))
    return {ANCHORS: prefix + listed} if listed else {}


def read_ids(headers: Headers, prefix: str) -> tuple[int, ...] | None:
    """Read the header quickly: give the root id and the edge id of each anchor in turn, none without the header.

    Gives None where `read_anchors` has to read it: it takes only a dict, list or tuple, whose names are text or bytes,
    and a value in the form that `write_header` gives it, of the topology of ``prefix``.
    """
    kind = headers.__class__
    if kind is not dict and kind is not list and kind is not tuple:
        return None
    pairs: Any = headers.items() if isinstance(headers, dict) else headers
    value: Any = _ABSENT
    try:
        for name, each in pairs:
            if name.__class__ is not str and name.__class__ is not bytes:
                return None
            length = len(name)
            if length == _WSGI_NAME_LENGTH and name == _WSGI_NAME:
                return None
            if length == _NAME_LENGTH and ((name.__class__ is str and name == ANCHORS) or _is_anchors(name)):
                if value is not _ABSENT:
                    return None
                value = each
    except (TypeError, ValueError):
        return None
    return () if value is _ABSENT else _read_value(value, prefix)


def _read_value(value: Any, prefix: str) -> tuple[int, ...] | None:
    if value.__class__ is bytes:
        value = value.decode("latin-1")
    if value.__class__ is not str or not value.startswith(prefix):
        return None
    listed: str = value[len(prefix) :]
    if len(listed) != _ANCHOR_LENGTH or listed[16] != "-":
        return _read_several(listed)
    raw = _unhex(listed[:16] + listed[17:])
    if raw is None:
        return None
    root, edge = ids = _unpack_one(raw)
    return ids if root and edge else None


def _read_several(listed: str) -> tuple[int, ...] | None:
    count, rest = divmod(len(listed) + 1, _ANCHOR_LENGTH + 1)
    if rest or not 1 < count <= MAX_ANCHORS:
        return None
    if listed[16 :: _ANCHOR_LENGTH + 1] != "-" * count or listed[_ANCHOR_LENGTH :: _ANCHOR_LENGTH + 1] != "," * (
        count - 1
    ):
        return None
    raw = _unhex(listed.replace(",", "").replace("-", ""))
    if raw is None or len(raw) != 16 * count:
        return None
    ids: tuple[int, ...] = struct.unpack(f">{2 * count}Q", raw)
    distinct = set(zip(ids[::2], ids[1::2], strict=True))
    return ids if 0 not in ids and len(distinct) == count else None


def _unhex(digits: str) -> bytes | None:
    """Decode lowercase hex digits; None for anything else, and for digits alone, which have no case."""
    try:
        raw = bytes.fromhex(digits)
    except ValueError:
        return None
    # fromhex skips spaces, so the length is compared.
    return raw if 2 * len(raw) == len(digits) and digits.islower() else None


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
    return ((name, value) for name, value in pairs if not _is_anchors(name))


def _is_anchors(name: Any) -> bool:
    return _is_named(name, _LOWER_NAME, _WSGI_NAME)


def _is_named(name: Any, lower: str, wsgi: str) -> bool:
    """Whether this is a header's name, in any case, or its name in WSGI's environment.

    There it is text in upper case; an ASGI application gets a request's header of that name as bytes in lower case.
    Whoever removes the one header at the edge of a network lets the other one in.
    """
    return name == wsgi or _text(name).lower() == lower


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
