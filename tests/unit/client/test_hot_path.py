"""Tests the hot path of the client: the header as it is read, and the edges of children as they are derived."""

import httpx
import pytest
from acker_client import Anchor, Anchors
from acker_client._core import hot_path
from acker_client._core.hot_path import EdgeSet, read_ids
from acker_protocol.anchors import read_anchors
from acker_protocol.ids import derive_edge
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.header_forms import FORMS, ONE, OTHER_NAMES

ANCHORS = Anchors(topology="default", anchors=(Anchor(root_id=0xAA, edge_id=0xBB),))


QUICK = [
    {"Acker-Anchors": ONE},
    {"acker-anchors": ONE.encode(), "x-retries": 3, "none": None},
    [("content-type", "x"), (b"ACKER-ANCHORS", ONE.encode())],
    (("acker-anchors", ONE), ("trace", None)),
]


@pytest.mark.parametrize("headers", QUICK)
def test_the_quick_reader_takes_headers_as_libraries_give_them(headers):
    assert read_ids(headers, "00 default ") == (0xAA, 0xBB)


@pytest.mark.parametrize("count", [1, 2, 63, 64])
def test_the_quick_reader_takes_any_number_of_anchors(count):
    anchors = Anchors(topology="a.b-c_1", anchors=tuple(Anchor(root_id=0xABC, edge_id=0xA0 + n) for n in range(count)))
    assert read_ids(anchors.headers(), "00 a.b-c_1 ") == anchors.ids


@pytest.mark.parametrize("headers", [{}, [], (), {"Content-Type": "text/plain"}, [(b"trace", b"1")]])
def test_the_quick_reader_finds_that_a_message_has_no_header(headers):
    assert read_ids(headers, "00 default ") == ()


@pytest.mark.parametrize(
    "headers",
    [
        None,
        7,
        "Acker-Anchors",
        [("Acker-Anchors",)],
        iter([("Acker-Anchors", ONE)]),
        httpx.Headers({"Acker-Anchors": ONE}),
        {"Acker-Anchors": None},
        {"Acker-Anchors": f" {ONE}"},
        {"Acker-Anchors": ONE, "acker-anchors": ONE},
        {"Acker-Anchors": ONE, 13: "x"},
        {"Acker-Anchors": ONE.replace("aa", "AA")},
        {"Acker-Anchors": ONE.replace("0000aa", "  00aa")},
        {"Acker-Anchors": f"{ONE},{ONE.rsplit(maxsplit=1)[-1]}"},
        {"Acker-Anchors": f"{ONE},00000000000000aa-000000000000  cc"},
        {"Acker-Anchors": f"{ONE},000000--000000aa-00000000000000cc"},
    ],
)
def test_the_quick_reader_leaves_the_rest_to_the_full_one(headers):
    assert read_ids(headers, "00 default ") is None


def test_the_quick_reader_consumes_nothing_that_it_does_not_take():
    pairs = iter([("Acker-Anchors", ONE)])
    assert read_ids(pairs, "00 default ") is None
    assert read_anchors(pairs, topology="default") == ANCHORS


@pytest.mark.parametrize("headers", FORMS.values(), ids=FORMS)
def test_the_quick_reader_takes_each_form_that_libraries_give_or_leaves_it_to_the_full_one(headers):
    ids = read_ids(headers, "00 default ")
    assert ids is None or ids == ANCHORS.ids


@pytest.mark.parametrize("headers", OTHER_NAMES)
def test_to_the_quick_reader_a_header_that_bears_the_name_of_wsgi_s_environment_is_another(headers):
    assert read_ids(headers, "00 default ") == ()


def test_the_quick_reader_leaves_the_header_beside_its_name_of_wsgi_to_the_full_one():
    headers = {"Acker-Anchors": ONE, "HTTP_ACKER_ANCHORS": ONE}
    assert read_ids(headers, "00 default ") is None


def written(anchors: list[tuple[int, int]]) -> str:
    return "00 default " + ",".join(f"{root:016x}-{edge:016x}" for root, edge in anchors)


SMALL = st.integers(0, 3) | st.integers(0xA0, 2**64 - 1)
TEXTS = st.lists(st.tuples(SMALL, SMALL), min_size=1, max_size=66).map(written)
NAMES = st.sampled_from(
    [
        "Acker-Anchors",
        b"acker-anchors",
        "Ac\u212aer-Anchors",
        "acker_anchors",
        b"trace",
        "trace",
        5,
        "HTTP_ACKER_ANCHORS",
    ]
)


@given(
    text=TEXTS,
    at=st.integers(0, 80),
    change=st.none() | st.sampled_from([*" \t\n-_,+xAaFfgZ09", "\u0660", "\xb2", ""]),
    names=st.lists(NAMES, max_size=3),
    encoded=st.booleans(),
    kind=st.sampled_from([dict, list, tuple]),
)
@example(text=ONE, at=11, change=" ", names=["Acker-Anchors"], encoded=False, kind=dict)
def test_the_quick_reader_takes_nothing_that_the_full_one_refuses(text, at, change, names, encoded, kind):
    if change is not None:
        text = text[:at] + change + text[at + 1 :]
    value = text.encode() if encoded else text
    headers = kind([(name, value) for name in names])
    ids = read_ids(headers, "00 default ")
    if ids is not None:
        assert read_anchors(headers, topology="default").ids == ids


def test_several_anchors_one_of_which_is_no_hex_are_left_to_the_full_reader() -> None:
    good, bad = "aa" * 8, "ag" * 8
    assert read_ids({"Acker-Anchors": f"00 default {good}-{good},{bad}-{good}"}, "00 default ") is None


@pytest.mark.parametrize("listed", ["{0}-{0};{0}-{0}", "{0}_{0},{0}-{0}"])
def test_several_anchors_with_other_separators_are_left_to_the_full_reader(listed: str) -> None:
    assert read_ids({"Acker-Anchors": "00 default " + listed.format("aa" * 8)}, "00 default ") is None


@pytest.mark.parametrize("count", [0, 1, 65])
def test_a_number_of_anchors_that_no_header_has_is_left_to_the_full_reader(count: int) -> None:
    whole = ",".join(f"{number:016x}-{'aa' * 8}" for number in range(1, count + 1))
    assert read_ids({"Acker-Anchors": f"00 default {whole},"}, "00 default ") is None
    assert read_ids({"Acker-Anchors": f"00 default {whole[:-1]}"}, "00 default ") is None


IDS = st.integers(1, 2**64 - 1)


@given(root=IDS, parent=st.integers(0, 2**64 - 1), component=st.text(), names=st.lists(st.text(), max_size=4))
def test_an_edge_set_gives_the_edges_that_derive_edge_gives(
    root: int, parent: int, component: str, names: list[str]
) -> None:
    try:
        expected = [derive_edge(root_id=root, parent_edge=parent, component=component, name=each) for each in names]
        edges = EdgeSet(root, parent, component)
        assert [edges.derive(each) for each in names] == expected
    except UnicodeEncodeError:
        return


def test_an_edge_set_never_derives_a_zero_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    class Zeros:
        def digest(self) -> bytes:
            return bytes(32)

    monkeypatch.setattr(hot_path, "sha256", lambda _: Zeros())
    expected = derive_edge(root_id=0xA1, parent_edge=0xB1, component="split", name="word-1")
    assert EdgeSet(0xA1, 0xB1, "split").derive("word-1") == expected
