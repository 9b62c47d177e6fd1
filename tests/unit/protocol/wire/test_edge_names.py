"""The names of edges as a string of the packed form."""

import pytest
from acker_protocol.errors import InvalidRequest
from acker_protocol.wire.edge_names import check_names, read_names, write_names

NAMES = (1, 2**64 - 1)


def test_names_are_written_and_read_as_16_digits_each() -> None:
    text = "0000000000000001ffffffffffffffff"
    assert write_names(NAMES) == text
    assert read_names(text) == NAMES
    assert read_names("") == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1", "16 digits each, not 1 characters"),
        ("g" * 16, "the names of edges"),
        ("0" * 15 + "1" + "0" * 15 + "1", "the names of edges"),
    ],
)
def test_other_texts_are_refused(text: str, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        read_names(text)


def test_names_give_the_ack_val_and_the_count() -> None:
    check_names((1, 2), acked=None, ack_val=3, outstanding=2)
    check_names((1, 2), acked=4, ack_val=7, outstanding=1)


@pytest.mark.parametrize(
    ("acked", "ack_val", "outstanding"), [(None, 2, 2), (None, 3, 1), (1, 3 ^ 1, 1), (4, 7, 2), (4, 3, 1)]
)
def test_names_of_another_ack_val_or_count_are_refused(acked: int | None, ack_val: int, outstanding: int) -> None:
    with pytest.raises(InvalidRequest, match="must give ack_val and outstanding"):
        check_names((1, 2), acked=acked, ack_val=ack_val, outstanding=outstanding)
