"""Describes what is wrong with settings: each line names the option, the variable, and what would be right."""

import types
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal, get_args, get_origin

from acker_protocol.wire.fields import abbreviate
from pydantic.fields import FieldInfo

PREFIX = "ACKER_"
SECRET = frozenset({"redis_url"})
"""Settings whose value no error shows: it may hold a password."""


def option_of(name: str, field: FieldInfo) -> str:
    """Return how the command line spells a setting: ``--data-dir``, or ``--open/--closed``."""
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    return str(extra.get("option", f"--{name.replace('_', '-')}"))


def named(name: str, fields: Mapping[str, FieldInfo]) -> str:
    """Name a setting by its option and its variable."""
    return f"{option_of(name, fields[name]).partition('/')[0]} ({PREFIX}{name.upper()})"


def describe(error: Mapping[str, Any], fields: Mapping[str, FieldInfo]) -> str:
    """Describe one error of pydantic; that of a single setting with its value, unless that is secret."""
    message = str(error["msg"]).removeprefix("Value error, ")
    name = str(error["loc"][0]) if error["loc"] else ""
    if name not in fields:
        return f"{name}: {message}" if name else message
    shown = "" if name in SECRET else f"; it is {_shown(error['input'])}"
    if error["type"] == "value_error":
        return f"{named(name, fields)}: {message}{shown}"
    return f"{named(name, fields)} has to be {_expected(fields[name])}{shown}"


def _shown(value: object) -> str:
    return abbreviate(value) if isinstance(value, str) else str(value)


def _expected(field: FieldInfo) -> str:
    """Describe the values that a setting takes."""
    kind = _kind(field.annotation)
    if kind is bool:
        return "true or false"
    if kind in (int, float):
        return f"a {'whole number' if kind is int else 'number'}{_range(field)}"
    if choices := _choices(kind):
        return " or ".join(filter(None, (", ".join(choices[:-1]), choices[-1])))
    return "a path" if kind is not str else "text"


def _range(field: FieldInfo) -> str:
    """Describe the bounds of a number; it has a lower one, whether it is included or not, and an included upper one."""
    bounds = {
        name: getattr(rule, name) for rule in field.metadata for name in ("ge", "gt", "le") if hasattr(rule, name)
    }
    if "gt" in bounds:
        return f" above {bounds['gt']}, up to {bounds['le']}"
    return f" from {bounds['ge']} to {bounds['le']}"


def _kind(annotation: Any) -> Any:
    """Return the type of a setting that may be None."""
    if get_origin(annotation) is types.UnionType:
        return next(kind for kind in get_args(annotation) if kind is not types.NoneType)
    return annotation


def _choices(kind: Any) -> Sequence[str]:
    if get_origin(kind) is Literal:
        return [str(choice) for choice in get_args(kind)]
    return [member.value for member in kind] if isinstance(kind, type) and issubclass(kind, StrEnum) else []
