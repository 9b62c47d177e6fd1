from collections.abc import Callable
from typing import Any

import pytest
from acker_protocol.operations import EndOn
from acker_protocol.wire import fields

Check = Callable[[Any], Any]
timeout = fields.integer(fields.TIMEOUT_MS)
NOT_STRINGS = [1, 1.5, True, ["a"], {"a": 1}]
HEX = "must be a string of 16 lowercase hex digits"
A_NAME = "must be a name: a letter or digit, then up to 127 letters, digits, dots, dashes, underscores"

A_TRACEPARENT = (
    "must be a W3C traceparent of version 00: 00-, 32 hex digits of a trace id, -, 16 of a span id, -, "
    "2 of flags; in lower case, neither id zero"
)
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

TAKEN: list[tuple[Check, Any, Any]] = [
    (fields.text, "", ""),
    (fields.text, "刘备 🦆\0", "刘备 🦆\0"),
    (fields.name, "a", "a"),
    (fields.name, "0", "0"),
    (fields.name, "Orders-1.v_2", "Orders-1.v_2"),
    (fields.name, "a" * 128, "a" * 128),
    (fields.idempotency_key, "!", "!"),
    (fields.idempotency_key, "~" * 128, "~" * 128),
    (fields.identity, "00000000000000a1", 0xA1),
    (fields.ack_val, "ffffffffffffffff", 2**64 - 1),
    (fields.ack_val, "0000000000000000", 0),
    (fields.edges, [], ()),
    (fields.edges, ["00000000000000b1", "00000000000000b2"], (0xB1, 0xB2)),
    (fields.message_id, "", ""),
    (fields.message_id, "é" * 512, "é" * 512),
    (fields.reason, "", ""),
    (fields.reason, "🦆" * 1_024, "🦆" * 1_024),
    (timeout, 100, 100),
    (timeout, 604_800_000, 604_800_000),
    (fields.allow_zero(timeout), 0, 0),
    (fields.allow_zero(timeout), 100, 100),
    *((timeout, value, 30_000) for value in (30000.0, 3e4)),
    *((fields.allow_zero(timeout), value, 0) for value in (0.0, -0.0)),
    (fields.integer(fields.OUTSTANDING), -1.0, -1),
    (fields.traceparent, TRACEPARENT, TRACEPARENT),
    (fields.boolean, True, True),
    (fields.boolean, False, False),
    (fields.share, 0, 0),
    (fields.share, 0.0, 0),
    (fields.share, -0.0, 0),
    (fields.share, 0.001, 0.001),
    (fields.share, 1, 1),
    (fields.end_on, "first_fail", EndOn.FIRST_FAIL),
    (fields.end_on, "all_ended", EndOn.ALL_ENDED),
    (fields.root_ids, [], []),
    (fields.root_ids, ["00000000000000a1", "00000000000000a1"], [0xA1, 0xA1]),
    (fields.root_ids, ["00000000000000a1"] * 1_000, [0xA1] * 1_000),
]
REFUSED: list[tuple[Check, Any, str]] = [
    *((fields.text, value, "must be a string") for value in NOT_STRINGS),
    (fields.text, "\ud800", "must be valid Unicode"),
    *((fields.name, value, A_NAME) for value in NOT_STRINGS),
    *((fields.name, value, A_NAME) for value in ("", ".a", "-a", "_a", "a b", "a/b", "é", "a" * 129, "a\n", "a\ud800")),
    (fields.idempotency_key, "", "must be 1 to 128 visible ASCII characters"),
    (fields.idempotency_key, "~" * 129, "must be 1 to 128 visible ASCII characters"),
    (fields.idempotency_key, "a b", "must be 1 to 128 visible ASCII characters"),
    (fields.idempotency_key, "a\x7f", "must be 1 to 128 visible ASCII characters"),
    (fields.idempotency_key, "é", "must be 1 to 128 visible ASCII characters"),
    *((check, value, "must be a string") for check in (fields.identity, fields.ack_val) for value in NOT_STRINGS),
    (fields.identity, "A1", HEX),
    (fields.identity, "0" * 16, "must not be zero"),
    (fields.ack_val, "", HEX),
    (fields.edges, "00000000000000b1", "must be a list of edge ids"),
    (fields.edges, {}, "must be a list of edge ids"),
    (fields.edges, [0xB1], "must be a string"),
    (fields.edges, [None], "must be a string"),
    (fields.edges, ["b1"], HEX),
    (fields.edges, ["0" * 16], "must not be zero"),
    (fields.edges, ["00000000000000b1", "00000000000000b1"], "must not name an edge twice"),
    (
        fields.edges,
        ["0000000000000001", "0000000000000002", "0000000000000003"],
        "must not name edges that XOR to zero: edge ids have to be random",
    ),
    (fields.message_id, "é" * 513, "must be at most 1024 bytes of UTF-8"),
    (fields.message_id, 42, "must be a string"),
    (fields.message_id, "\udfff", "must be valid Unicode"),
    (fields.reason, "a" * 1_025, "must be at most 1024 characters"),
    (fields.reason, 42, "must be a string"),
    *((timeout, value, "must be an integer from 100 to 604800000") for value in (99, 604_800_001, 0, -1)),
    *((timeout, value, "must be an integer from 100 to 604800000") for value in (True, "100", "100.0", [100])),
    *(
        (timeout, value, "must be an integer from 100 to 604800000")
        for value in (100.5, 99.0, 1e300, float("inf"), float("nan"))
    ),
    *(
        (fields.allow_zero(timeout), value, "must be an integer from 100 to 604800000, or 0")
        for value in (99, 0.5, 99.0, False, "0")
    ),
    *(
        (fields.traceparent, value, A_TRACEPARENT)
        for value in (1, None, "", TRACEPARENT[1:], "01" + TRACEPARENT[2:], TRACEPARENT.upper(), TRACEPARENT + "0")
    ),
    *((fields.end_on, value, "must be 'first_fail' or 'all_ended'") for value in ("", "ALL_ENDED", 1, None, [])),
    *(
        (fields.root_ids, value, "must be a list of at most 1000 root ids")
        for value in ("00000000000000a1", None, {}, ["00000000000000a1"] * 1_001)
    ),
    (fields.root_ids, ["00000000000000a1", 5], "must hold root ids: the one at index 1 must be a string"),
    (fields.root_ids, ["a1"], f"must hold root ids: the one at index 0 {HEX}"),
    (fields.root_ids, ["0" * 16], "must hold root ids: the one at index 0 must not be zero"),
    *((fields.boolean, value, "must be true or false") for value in (0, 1, "true", [])),
    *(
        (fields.share, value, "must be a number from 0 to 1")
        for value in (True, "0", [1], -0.001, 1.001, 2, float("nan"), float("inf"))
    ),
]
RANGES = [
    (fields.TIMEOUT_MS, 100, 7 * 24 * 3_600_000),
    (fields.RETENTION_MS, 1_000, 24 * 3_600_000),
    (fields.OUTSTANDING, -2_147_483_648, 2_147_483_647),
    (fields.LIMIT, 1, 10_000),
    (fields.WAIT_MS, 0, 60_000),
    (fields.ACKERS, 0, 128),
]


@pytest.mark.parametrize(("check", "value", "held"), TAKEN)
def test_what_the_contract_allows_is_taken(check: Check, value: Any, held: Any) -> None:
    assert check(value) == held
    assert type(check(value)) is type(held)


@pytest.mark.parametrize(("check", "value", "why"), REFUSED)
def test_everything_else_is_refused_with_what_it_must_be(check: Check, value: Any, why: str) -> None:
    with pytest.raises(ValueError, match="must") as refusal:
        check(value)
    assert str(refusal.value) == why


@pytest.mark.parametrize(("allowed", "least", "most"), RANGES)
def test_a_range_has_the_bounds_of_the_contract(allowed: range, least: int, most: int) -> None:
    check = fields.integer(allowed)
    assert (check(least), check(most)) == (least, most)
    for outside in (least - 1, most + 1):
        with pytest.raises(ValueError, match=rf"^must be an integer from {least} to {most}$"):
            check(outside)


@pytest.mark.parametrize("ids", [(), (1,), (1, 2), (2**64 - 1, 1, 2)])
def test_distinct_edges_pass(ids: tuple[int, ...]) -> None:
    fields.check_distinct(ids)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("root", "'root'"),
        ("a" * 40, f"'{'a' * 40}'"),
        ("a" * 41, f"'{'a' * 40}…'"),
        ("a'b\n\ud800", '"a\'b\\n\\ud800"'),
    ],
)
def test_a_callers_text_is_shown_shortened_and_escaped(value: str, text: str) -> None:
    assert fields.abbreviate(value) == text


NEAREST = [
    ("wait", "wait_ms"),
    ("WAIT-MS", "wait_ms"),
    ("Limit", "limit"),
    ("limt", "limit"),
    ("openn", "open"),
    ("token", None),
    ("", None),
    ("x" * 1_000_000, None),
    ("limit" + "x" * 1_000_000, None),
]


@pytest.mark.parametrize(("name", "meant"), NEAREST, ids=[name[:10] for name, _ in NEAREST])
def test_a_misspelt_name_resembles_a_known_one_or_none(name: str, meant: str | None) -> None:
    assert fields.nearest(name, ["limit", "wait_ms", "open", "after"]) == meant


def test_no_known_name_is_the_nearest_to_none() -> None:
    assert fields.nearest("limit", []) is None
