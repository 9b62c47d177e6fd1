"""Knows what a program's arguments have to be, and says so in words where they are something else."""

from typing import TYPE_CHECKING, Any

from acker_protocol.wire import fields

from acker_client.errors import Misuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SHOWN = 40
"""So much of a wrong value is shown."""


def name(what: str, value: Any) -> str:
    """Give a name as the contract takes it. Raises `Misuse`, also for None."""
    try:
        return fields.name(value)
    except ValueError as fault:
        raise Misuse(f"{what} {fault}") from None


def number(what: str, value: Any) -> None:
    """Refuse what is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(what, "a number", value)


def whole(what: str, value: Any) -> None:
    """Refuse what is no whole number."""
    if type(value) is not int:
        raise _wrong(what, "a whole number", value)


def text(what: str, value: Any) -> None:
    """Refuse what is neither a string nor None."""
    if value is not None and not isinstance(value, str):
        raise _wrong(what, "a string", value)


def function(what: str, value: Any) -> None:
    """Refuse what cannot be called."""
    if not callable(value):
        raise _wrong(what, "a function", value)


def kind(what: str, value: Any, wanted: type, words: str) -> None:
    """Refuse what is not of a type; ``words`` say what it should be."""
    if not isinstance(value, wanted):
        raise _wrong(what, words, value)


def known(given: "Mapping[str, Any]", names: "Iterable[str]") -> None:
    """Refuse arguments of names that there are not: a word mistyped would be passed over in silence."""
    listed = sorted(names)
    if strange := sorted(set(given).difference(listed)):
        raise Misuse(f"there is no argument {', '.join(strange)}; there are {', '.join(listed)}")


def _wrong(what: str, words: str, value: Any) -> Misuse:
    shown = repr(value)
    return Misuse(f"{what} must be {words}, not {shown if len(shown) <= SHOWN else shown[:SHOWN] + '…'}")
