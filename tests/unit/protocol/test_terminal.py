"""Tests what may be printed of a text of others."""

import pytest
from acker_protocol.terminal import printable

SHOWN = {
    "": "",
    "an order, 42 €": "an order, 42 €",
    "刘备 🦆": "刘备 🦆",
    "one\nacker: two": "one�acker: two",
    "\r\n\t\v\f": "�����",
    "\x1b[2K\x9b2K\x7f\x00": "�[2K�2K��",
    "a\u2028b\u2029c\x85d": "a�b�c�d",
    "\u202etxt.exe": "�txt.exe",
    "\ud800": "�",
}


@pytest.mark.parametrize(("text", "shown"), SHOWN.items(), ids=map(ascii, SHOWN))
def test_what_is_not_printable_is_replaced(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert len(printable(text).splitlines()) <= 1
