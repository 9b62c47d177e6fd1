"""Tests the decorator of values that are made for each operation."""

from dataclasses import field, replace

import pytest
from acker_protocol.values import value


@value
class Point:
    x: int
    y: int = 2
    note: str = field(default="", compare=False)


def test_a_value_is_equal_by_its_fields_and_can_be_a_key() -> None:
    assert Point(x=1) == Point(x=1, y=2, note="other")
    assert hash(Point(x=1)) == hash(Point(x=1, note="other"))
    assert Point(x=1) != Point(x=1, y=3)
    assert replace(Point(x=1), y=3) == Point(x=1, y=3)


def test_a_value_is_made_by_names_alone_and_has_no_other_fields() -> None:
    with pytest.raises(TypeError):
        Point(1)  # type: ignore[misc]
    with pytest.raises(AttributeError):
        Point(x=1).z = 3  # type: ignore[attr-defined]
