"""Compares an answer with what a scenario or a vector expects of it."""

import re
from typing import Any

RELATIONS = {
    "$at_least": lambda found, wanted: found >= wanted,
    "$at_most": lambda found, wanted: found <= wanted,
    "$more_than": lambda found, wanted: found > wanted,
    "$largest_at_least": lambda found, wanted: max(found) >= wanted,
    "$not": lambda found, wanted: found != wanted,
    "$contains": lambda found, wanted: wanted in found,
    "$like": lambda found, wanted: re.fullmatch(wanted, found) is not None,
    "$length": lambda found, wanted: len(found) == wanted,
    "$any_order": lambda found, wanted: sorted(found) == sorted(wanted),
    "$distinct": lambda found, wanted: (len({*found}) == len(found)) is wanted,
}
"""What may stand in the place of a value; all that are given must hold."""


def mismatch(found: Any, wanted: Any, where: str = "the answer") -> str:
    """Describe the first difference, empty if there is none. Members that are not expected are ignored."""
    if isinstance(wanted, dict) and wanted and all(name in RELATIONS for name in wanted):
        wrong = [name for name, value in wanted.items() if not _holds(name, found, value)]
        return f"{where} is {found!r}, which is not {wanted}" if wrong else ""
    if isinstance(wanted, dict) and isinstance(found, dict):
        missing = [name for name in wanted if name not in found]
        if missing:
            return f"{where} has no {missing[0]}: {found!r}"
        return _first(mismatch(found[name], value, f"{where}.{name}") for name, value in wanted.items())
    if isinstance(wanted, list) and isinstance(found, list):
        if len(wanted) != len(found):
            return f"{where} has {len(found)} items instead of {len(wanted)}: {found!r}"
        pairs = enumerate(zip(found, wanted, strict=True))
        return _first(mismatch(one, other, f"{where}.{at}") for at, (one, other) in pairs)
    is_same = found == wanted and isinstance(found, bool) == isinstance(wanted, bool)
    return "" if is_same else f"{where} is {found!r} instead of {wanted!r}"


def _holds(name: str, found: Any, wanted: Any) -> bool:
    try:
        return bool(RELATIONS[name](found, wanted))
    except (TypeError, ValueError):
        return False


def _first(differences: Any) -> str:
    return next(filter(None, differences), "")
