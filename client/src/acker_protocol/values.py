"""The decorator of values that are made for each operation."""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """Make a class a slotted, keyword-only dataclass whose fields nobody changes: the type checker sees to that.

    At run time it is not frozen, because such a dataclass takes twice as long to make: it sets each field by a call.
    """
    return dataclass(slots=True, kw_only=True, unsafe_hash=True)(cls)
