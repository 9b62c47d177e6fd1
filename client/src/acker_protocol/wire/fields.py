"""Checks of the fields of the contract.

Every check takes a value from JSON and gives the value of the operation's field, or raises ``ValueError`` with what it
must be. ``null`` is not checked: it means that the field was left out.
"""

import difflib
import re
from typing import TYPE_CHECKING, Any

from acker_protocol.ids import fold, parse_ack_val, parse_id
from acker_protocol.operations import EndOn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

DAY_MS = 86_400_000
TIMEOUT_MS = range(100, 7 * DAY_MS + 1)
RETENTION_MS = range(1_000, DAY_MS + 1)
GRACE_MS = range(DAY_MS + 1)
OUTSTANDING = range(-(2**31), 2**31)
LIMIT = range(1, 10_001)
WAIT_MS = range(60_001)
ACKERS = range(129)
ROOT_IDS = 1_000
"""Of so many roots one request reads the states at most."""
MESSAGE_ID_BYTES = 1_024
REASON_CHARACTERS = 1_024

_COMPARED = 100
"""So many characters of a misspelt name are compared: it may be very long, and to compare takes time."""
_SIMILAR = 0.7
"""How similar a name must be, from 0 to 1: `wait` resembles `wait_ms`, and `token` does not resemble `open`."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
_KEY = re.compile(r"[\x21-\x7e]{1,128}", re.ASCII)


def text(value: Any) -> str:
    """Check a string: it must be valid Unicode, without a lone surrogate."""
    if not isinstance(value, str):
        raise ValueError("must be a string")  # noqa: TRY004 - every check raises one kind of error
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("must be valid Unicode") from None
    return value


def name(value: Any) -> str:
    """Check the name of a topology, spout task or component."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError("must be a name: a letter or digit, then up to 127 letters, digits, dots, dashes, underscores")
    return value


def idempotency_key(value: str) -> str:
    """Check an idempotency key."""
    if not _KEY.fullmatch(value):
        raise ValueError("must be 1 to 128 visible ASCII characters")
    return value


def identity(value: Any) -> int:
    """Check and parse a root id or an edge id."""
    return parse_id(text(value))


def ack_val(value: Any) -> int:
    """Check and parse an ack val, which may be zero."""
    return parse_ack_val(text(value))


def edges(value: Any) -> tuple[int, ...]:
    """Check and parse a list of edge ids that neither repeat nor XOR to zero; it may be empty."""
    if not isinstance(value, list):
        raise ValueError("must be a list of edge ids")  # noqa: TRY004
    ids = tuple(identity(item) for item in value)
    check_distinct(ids)
    return ids


def root_ids(value: Any) -> list[int]:
    """Check and parse a list of at most `ROOT_IDS` root ids; an error names the one that is none."""
    if not isinstance(value, list) or len(value) > ROOT_IDS:
        raise ValueError(f"must be a list of at most {ROOT_IDS} root ids")
    return [_root_id(index, item) for index, item in enumerate(value)]


def check_distinct(ids: tuple[int, ...]) -> None:
    """Refuse edge ids of one operation that repeat or XOR to zero."""
    if len(set(ids)) < len(ids):
        raise ValueError("must not name an edge twice")
    if ids and not fold(ids):
        raise ValueError("must not name edges that XOR to zero: edge ids have to be random")


def message_id(value: Any) -> str:
    """Check the spout's own id of a message."""
    if len(text(value).encode()) > MESSAGE_ID_BYTES:
        raise ValueError(f"must be at most {MESSAGE_ID_BYTES} bytes of UTF-8")
    return str(value)


def reason(value: Any) -> str:
    """Check the reason of a fail."""
    if len(text(value)) > REASON_CHARACTERS:
        raise ValueError(f"must be at most {REASON_CHARACTERS} characters")
    return str(value)


def traceparent(value: Any) -> str:
    """Check a W3C ``traceparent`` of version 00."""
    if not isinstance(value, str) or not _TRACEPARENT.fullmatch(value):
        raise ValueError(
            "must be a W3C traceparent of version 00: 00-, 32 hex digits of a trace id, -, 16 of a span id, -, "
            "2 of flags; in lower case, neither id zero"
        )
    return value


def integer(allowed: range) -> "Callable[[Any], int]":
    """Make the check of an integer within a range; as in JSON Schema, 30000.0 is the integer 30000."""

    def check(value: Any) -> int:
        number = _without_fraction(value)
        if type(number) is not int or number not in allowed:
            raise ValueError(f"must be an integer from {allowed.start} to {allowed.stop - 1}")
        return number

    return check


def allow_zero(check: "Callable[[Any], int]") -> "Callable[[Any], int]":
    """Make a check that also takes 0, which means none."""

    def checked(value: Any) -> int:
        if _is_zero(value):
            return 0
        try:
            return check(value)
        except ValueError as error:
            raise ValueError(f"{error}, or 0") from None

    return checked


def _root_id(index: int, value: Any) -> int:
    try:
        return identity(value)
    except ValueError as error:
        raise ValueError(f"must hold root ids: the one at index {index} {error}") from None


def _without_fraction(value: Any) -> Any:
    """Return a float that has no fraction as an integer, anything else as it is."""
    return int(value) if type(value) is float and value.is_integer() else value


def _is_zero(value: Any) -> bool:
    return type(value) in (int, float) and value == 0


def boolean(value: Any) -> bool:
    """Check true or false."""
    if not isinstance(value, bool):
        raise ValueError("must be true or false")  # noqa: TRY004
    return value


def end_on(value: Any) -> EndOn:
    """Check what ends a root."""
    if value not in tuple(EndOn):
        raise ValueError(f"must be {' or '.join(map(repr, map(str, EndOn)))}")
    return EndOn(value)


def share(value: Any) -> float:
    """Check a share: a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("must be a number from 0 to 1")
    return int(value) if value in {0, 1} else value


def abbreviate(value: str) -> str:
    """Shorten a caller's text for an error."""
    return repr(value if len(value) <= 40 else value[:40] + "…")


def nearest(name: str, known: "Iterable[str]") -> str | None:
    """Return the known name that a misspelt one resembles most, in any case; None if it resembles none."""
    by_lower = {each.lower(): each for each in known}
    found = difflib.get_close_matches(name[:_COMPARED].lower(), by_lower, n=1, cutoff=_SIMILAR)
    return by_lower[found[0]] if found else None
