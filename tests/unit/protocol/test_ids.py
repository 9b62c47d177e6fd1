import pytest
from acker_protocol import ids
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import ack_vals
from tests.support.strategies import ids as any_id

FIRST_DIGEST = bytes(8) + bytes(range(24))

# Computed with `openssl dgst -sha256 -mac HMAC -macopt hexkey:ROOT` over the bytes that docs/semantics.md describes.
VECTORS = [
    ("00000000000000a1", "00000000000000b1", "split", "word-1", "03829b9cea80a97e"),
    ("00000000000000a1", "00000000000000b1", "split", "word-2", "d7f56fa2282a92d0"),
    ("00000000000000a1", "00000000000000b1", "count", "", "e8f0325c9564aa5a"),
    ("00000000000000a1", "00000000000000b1", "count", "naïve 🦆", "fa896955603680f6"),
    ("ffffffffffffffff", "8000000000000000", "zählen", "刘备", "05c77c972988fca9"),
    ("0123456789abcdef", "fedcba9876543210", "a.b-c_d", "0", "73287073355e3e4d"),
]

NOT_HEX = [
    "",
    "a1",
    "00000000000000A1",
    "00000000000000g1",
    "0000000000000000a1",
    "00000000000000a1\n",
    " 0000000000000a1",
    "0x000000000000a1",
    "0000_0000_0000a1",
    "\u0660000000000000001",
]


@pytest.mark.parametrize(
    ("text", "value"),
    [("00000000000000a1", 0xA1), ("ffffffffffffffff", 2**64 - 1), ("8000000000000000", 2**63), ("0" * 15 + "1", 1)],
)
def test_an_id_is_written_as_16_lowercase_hex_digits(text: str, value: int) -> None:
    assert ids.parse_id(text) == ids.parse_ack_val(text) == value
    assert ids.format_id(value) == text


@given(ack_vals)
def test_what_is_written_is_read_back(value: int) -> None:
    assert ids.parse_ack_val(ids.format_id(value)) == value


@pytest.mark.parametrize("text", NOT_HEX)
def test_any_other_writing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^must be a string of 16 lowercase hex digits$"):
        ids.parse_ack_val(text)
    with pytest.raises(ValueError, match=r"^must be a string of 16 lowercase hex digits$"):
        ids.parse_id(text)


def test_an_ack_val_may_be_zero_and_an_id_may_not() -> None:
    assert ids.parse_ack_val("0000000000000000") == 0
    with pytest.raises(ValueError, match=r"^must not be zero$"):
        ids.parse_id("0000000000000000")


@pytest.mark.parametrize(
    ("edges", "value"), [([], 0), ([0xB1], 0xB1), ([0xB1, 0xB2], 0x03), ([0xB1, 0xB1], 0), ([1, 2, 3], 0)]
)
def test_a_fold_is_the_xor_of_ids(edges: list[int], value: int) -> None:
    assert ids.fold(edges) == value


@given(st.lists(any_id, max_size=8).flatmap(lambda edges: st.tuples(st.just(edges), st.permutations(edges))))
def test_a_fold_does_not_depend_on_the_order(orders: tuple[list[int], list[int]]) -> None:
    assert ids.fold(orders[0]) == ids.fold(iter(orders[1]))


def test_an_id_is_drawn_from_eight_bytes_big_endian() -> None:
    asked = []

    def entropy(size: int) -> bytes:
        asked.append(size)
        return bytes.fromhex("0123456789abcdef")

    assert ids.draw_id(entropy) == 0x0123456789ABCDEF
    assert asked == [8]


def test_zero_is_never_drawn() -> None:
    draws = iter([bytes(8), bytes(8), bytes(7) + b"\x05"])
    assert ids.draw_id(lambda _: next(draws)) == 5


def test_ids_drawn_from_the_system_fill_64_bits() -> None:
    drawn = {ids.draw_id() for _ in range(200)}
    assert len(drawn) == 200
    assert min(drawn) > 0
    assert 2**63 < max(drawn) < 2**64


@pytest.mark.parametrize(("root", "parent", "component", "name", "edge"), VECTORS)
def test_a_derived_edge_is_the_test_vector(root: str, parent: str, component: str, name: str, edge: str) -> None:
    derived = ids.derive_edge(
        root_id=ids.parse_id(root), parent_edge=ids.parse_id(parent), component=component, name=name
    )
    assert ids.format_id(derived) == edge


def test_an_edge_derived_at_a_spout_has_eight_zero_bytes_as_parent_and_the_spout_task_as_component() -> None:
    derived = ids.derive_edge(root_id=0xA1, parent_edge=ids.SPOUT_EDGE, component="orders-1", name="42")
    assert ids.format_id(derived) == "351337e474b9e96f"


def test_a_digest_that_begins_with_zeros_is_digested_again_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    hmac, calls = ids._hmac, list[bytes]()

    def zeros_first(key: bytes, text: bytes) -> bytes:
        calls.append(text)
        return FIRST_DIGEST if len(calls) == 1 else hmac(key, text)

    monkeypatch.setattr(ids, "_hmac", zeros_first)
    derived = ids.derive_edge(root_id=0xA1, parent_edge=0xB1, component="split", name="word-1")
    assert ids.format_id(derived) == "434fdfec6f4069ab"
    assert calls == [bytes.fromhex("00000000000000b1") + b"split\0word-1", FIRST_DIGEST]


def test_digests_of_zeros_only_never_give_a_zero_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    hmac, zeros = ids._hmac, [bytes(32), bytes(32)]
    monkeypatch.setattr(ids, "_hmac", lambda key, text: zeros.pop() if zeros else hmac(key, text))
    derived = ids.derive_edge(root_id=0xA1, parent_edge=0xB1, component="split", name="word-1")
    assert ids.format_id(derived) == "711b6e24517e2aa0"


@pytest.mark.parametrize(
    ("outcome", "name"),
    [
        ("acked", "127be02e8ce5e5c947da546c4aa5d826"),
        ("failed", "9a9e1a5f63cb4c27927238bc896180d2"),
        ("timed_out", "eacf553f2a1a7f80f43d886d1bffcbf8"),
    ],
)
def test_a_completion_is_named_by_incarnation_root_start_and_outcome(outcome: str, name: str) -> None:
    given_name = ids.completion_id(
        incarnation="0123456789abcdef", root_id=0xA1, started_ms=1_790_000_000_000, outcome=outcome
    )
    assert given_name == name


def test_no_two_completions_share_a_name() -> None:
    one = {"incarnation": "0123456789abcdef", "root_id": 0xA1, "started_ms": 1_790_000_000_000, "outcome": "acked"}
    others = [
        {"incarnation": "0123456789abcdee"},
        {"root_id": 0xA2},
        {"started_ms": 1_790_000_000_001},
        {"outcome": "failed"},
    ]
    names = {ids.completion_id(**(one | other)) for other in [{}, *others]}  # type: ignore[arg-type]
    assert len(names) == 5
