from acker_client._cli.output import table


def test_numbers_stand_to_the_right_and_texts_to_the_left() -> None:
    assert table(("NAME", "COUNT"), [("a", 5), ("bcdefg", 1234567)]) == [
        "NAME      COUNT",
        "a             5",
        "bcdefg  1234567",
    ]


def test_an_id_of_digits_only_is_a_text() -> None:
    assert table(("PROCESS", "PID"), [("64858621", 7)]) == ["PROCESS   PID", "64858621    7"]


def test_a_missing_number_stands_to_the_right() -> None:
    assert table(("A", "P50_MS"), [("x", None), ("y", 12)])[1] == "x       -"
