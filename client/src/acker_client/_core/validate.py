"""Checks the arguments of a program, and says in words what is wrong with them."""

import math
from typing import TYPE_CHECKING, Any

from acker_protocol.anchors_signature import secret_keys
from acker_protocol.wire import fields

from acker_client.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_SHOWN = 40
"""Characters of a wrong value that an error shows."""

_TIMES_MS = range(2**53)


def name(what: str, value: Any) -> str:
    """Check a name of the contract. Raises `UsageError`, also for None."""
    try:
        return fields.name(value)
    except ValueError as error:
        raise UsageError(f"{what} {error}") from None


def number(what: str, value: Any) -> None:
    """Refuse what is not a number, NaN too."""
    if not _is_number(value) or math.isnan(value):
        raise wrong(what, "a number", value)


def integer(what: str, value: Any) -> None:
    """Refuse what is not a whole number."""
    if type(value) is not int:
        raise wrong(what, "a whole number", value)


def positive(what: str, value: Any) -> None:
    """Refuse what is no whole number of 1 or more."""
    integer(what, value)
    if value < 1:
        raise UsageError(f"{what} must be 1 or more, not {value}")


def text(what: str, value: Any) -> None:
    """Refuse what is neither a string nor None."""
    if value is not None and not isinstance(value, str):
        raise wrong(what, "a string", value)


def function(what: str, value: Any) -> None:
    """Refuse what cannot be called."""
    if not callable(value):
        raise wrong(what, "a function", value)


def instance(what: str, value: Any, wanted: type, words: str) -> None:
    """Refuse what is not of a type; ``words`` name the type in the error."""
    if not isinstance(value, wanted):
        raise wrong(what, words, value)


def one_of(what: str, value: Any, *allowed: str) -> None:
    """Refuse a value that is not one of these."""
    if value not in allowed:
        raise UsageError(f"{what} must be {' or '.join(map(repr, allowed))}, not {value!r}")


def checked(what: str, check: "Callable[[Any], Any]", value: Any) -> Any:
    """Apply a check of the contract; None stays None. Raises `UsageError` that names the argument."""
    if value is None:
        return None
    try:
        return check(value)
    except ValueError as error:
        raise UsageError(f"{what} {error}") from None


def secrets(what: str, value: Any) -> "tuple[bytes, ...]":
    """Return the keys of one secret or of several. Raises `UsageError`, which does not show them."""
    try:
        return secret_keys(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{what} {error}") from None


def interval_ms(since: Any, until: Any) -> dict[str, int | None]:
    """Turn the Unix seconds between which something happened into fields of a request. Raises `UsageError`."""
    return {
        "from_ms": milliseconds("since", since, _TIMES_MS),
        "to_ms": milliseconds("until", until, _TIMES_MS),
    }


def milliseconds(what: str, seconds: Any, allowed: range, *, zero: bool = False) -> int | None:
    """Turn seconds into whole milliseconds, rounded up; None stays None. Raises `UsageError` outside ``allowed``.

    With ``zero``, 0 is allowed too.
    """
    if seconds is None:
        return None
    if not _is_number(seconds):
        raise wrong(what, "a number", seconds)
    found = to_milliseconds(seconds) if math.isfinite(seconds) else -1
    if found in allowed or (zero and seconds == 0):
        return found
    more = ", or 0" if zero else ""
    bounds = f"from {allowed.start / 1000:g} to {(allowed.stop - 1) / 1000:g}"
    raise UsageError(f"{what} must be a number of seconds {bounds}{more}, not {seconds!r}")


def to_milliseconds(seconds: float) -> int:
    """Round seconds up to whole milliseconds; the product is rounded first, since 16.1 * 1000 is above 16100."""
    return math.ceil(round(seconds * 1000, 6))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def no_tuple(value: Any) -> UsageError:
    """Return the error for what is not a tuple and was to be one."""
    return wrong("what is acked, failed or anchored to", "a tuple, as acker.receive() gives it", value)


def wrong(what: str, words: str, value: Any) -> UsageError:
    """Return the error for a value that is not what the words name."""
    shown = repr(value)
    return UsageError(f"{what} must be {words}, not {shown if len(shown) <= MAX_SHOWN else shown[:MAX_SHOWN] + '…'}")
