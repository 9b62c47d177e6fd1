import struct

import pytest
from acker_protocol.errors import InvalidRequest
from acker_service.topologies.cursor_codec import CursorCodec

INCARNATION, OTHER = "00000000000000a1", "00000000000000a2"
CODEC = CursorCodec(1, struct.Struct(">BQ"))
ROWS = [(0, 7), (3, 2**64 - 1)]


@pytest.mark.parametrize("rows", [[], ROWS])
def test_what_is_encoded_is_decoded(rows: list[tuple[int, ...]]) -> None:
    assert CODEC.decode(CODEC.encode(INCARNATION, rows), INCARNATION) == rows


def test_a_cursor_of_another_incarnation_or_format_has_no_rows() -> None:
    cursor = CODEC.encode(INCARNATION, ROWS)
    assert CODEC.decode(cursor, OTHER) is None
    assert CursorCodec(2, CODEC.row).decode(cursor, INCARNATION) is None


@pytest.mark.parametrize("text", ["", "A", "!", "é", CODEC.encode(INCARNATION, ROWS)[:-4]])
def test_any_other_text_is_invalid(text: str) -> None:
    with pytest.raises(InvalidRequest):
        CODEC.decode(text, INCARNATION)
