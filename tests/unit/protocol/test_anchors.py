"""Tests how anchors travel in the header."""

import httpx
import pytest
from acker_client import Anchor, Anchors, InvalidHeader, TooManyAnchors, UsageError, topology_of
from acker_protocol.anchors import from_ids, parse_anchors, read_anchors

from tests.support.header_forms import FORMS, ONE, OTHER_NAMES

ANCHORS = Anchors(topology="default", anchors=(Anchor(root_id=0xAA, edge_id=0xBB),))


def many(count: int) -> tuple[Anchor, ...]:
    return tuple(Anchor(root_id=0xAA, edge_id=edge) for edge in range(1, count + 1))


def test_one_anchor_is_written_as_the_contract_says():
    assert ANCHORS.headers() == {"Acker-Anchors": ONE}


def test_several_anchors_stand_behind_one_topology():
    anchors = Anchors(topology="default", anchors=many(2))
    assert anchors.headers() == {
        "Acker-Anchors": "00 default 00000000000000aa-0000000000000001,00000000000000aa-0000000000000002"
    }


def test_no_anchors_give_no_header():
    assert Anchors(topology="default").headers() == {}


def test_what_is_written_is_read_again():
    anchors = Anchors(topology="a.b-c_1", anchors=many(64))
    assert read_anchors(anchors.headers(), topology="a.b-c_1") == anchors


def test_an_amqp_message_keeps_its_other_headers_as_they_are():
    death = {"x-death": [{"queue": "words", "count": 2}], "tries": 3, "raw": b"\xff", "when": None}
    headers = ANCHORS.amqp_headers(death)
    assert headers == death | {"Acker-Anchors": ONE}
    assert headers["x-death"] is death["x-death"]
    assert read_anchors(headers, topology="default") == ANCHORS


def test_an_amqp_message_without_other_headers_has_the_one():
    assert ANCHORS.amqp_headers() == ANCHORS.amqp_headers({}) == {"Acker-Anchors": ONE}


def test_a_kafka_message_has_the_header_in_bytes_behind_its_others():
    others = [("trace", b"1"), ("trace", b"2"), ("none", None)]
    headers = ANCHORS.kafka_headers(others)
    assert headers == [*others, ("Acker-Anchors", ONE.encode())]
    assert read_anchors(headers, topology="default") == ANCHORS
    assert ANCHORS.kafka_headers() == ANCHORS.kafka_headers(None) == [("Acker-Anchors", ONE.encode())]


@pytest.mark.parametrize("name", ["Acker-Anchors", "acker-anchors"])
@pytest.mark.parametrize("sent", [ANCHORS, Anchors(topology="default")])
def test_a_message_sent_on_never_carries_the_anchors_it_came_with(name, sent):
    old = "00 default 00000000000000aa-00000000000000cc"
    assert read_anchors(sent.amqp_headers({name: old}), topology="default") == sent
    assert read_anchors(sent.kafka_headers([(name, old.encode())]), topology="default") == sent


def test_writing_headers_changes_nothing_of_the_others():
    amqp, kafka = {"acker-anchors": ONE, "a": 1}, [("acker-anchors", ONE.encode())]
    ANCHORS.amqp_headers(amqp)
    ANCHORS.kafka_headers(kafka)
    assert (amqp, kafka) == ({"acker-anchors": ONE, "a": 1}, [("acker-anchors", ONE.encode())])


def test_writing_the_header_changes_nothing():
    assert ANCHORS.headers() == ANCHORS.headers()


@pytest.mark.parametrize(
    "headers",
    [
        {"Acker-Anchors": ONE},
        {"acker-anchors": ONE},
        {"ACKER-ANCHORS": ONE.encode()},
        [("content-type", "x"), ("acker-anchors", ONE.encode())],
        [(b"acker-anchors", ONE.encode())],
        httpx.Headers({"Acker-Anchors": ONE}),
        {"x-retries": 3, "Acker-Anchors": f" {ONE} "},
        {"x-death": [{"queue": "words"}], "none": None, "Acker-Anchors": ONE.encode()},
        [("trace", None), ("Acker-Anchors", ONE.encode())],
        (("Acker-Anchors", ONE.encode()),),
    ],
)
def test_the_header_is_found_as_http_amqp_and_kafka_libraries_give_it(headers):
    assert read_anchors(headers, topology="default") == ANCHORS


@pytest.mark.parametrize("headers", [None, {}, [], {"Content-Type": "text/plain"}])
def test_a_message_without_the_header_has_no_anchors(headers):
    assert read_anchors(headers, topology="default") == Anchors(topology="default")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        "00 default",
        "00 default ",
        ONE.replace("00 ", "01 ", 1),
        ONE.replace("default", "-default"),
        ONE.replace("aa", "AA"),
        ONE.replace("aa", "00"),
        ONE.replace("bb", "00"),
        ONE.replace("-00", "_00"),
        ONE + ",",
        ONE + ", 00000000000000aa-00000000000000cc",
        ONE + "\n" + ONE,
        f"{ONE},{ONE.rsplit(maxsplit=1)[-1]}",
    ],
)
def test_a_malformed_header_is_refused(text):
    with pytest.raises(InvalidHeader, match="Acker-Anchors"):
        parse_anchors(text)


def test_two_headers_in_one_message_are_refused():
    with pytest.raises(InvalidHeader, match="2 times"):
        read_anchors([("acker-anchors", ONE), ("Acker-Anchors", ONE)], topology="default")


def test_a_header_of_another_topology_is_refused():
    with pytest.raises(InvalidHeader, match="'default', this acker works for 'orders'"):
        read_anchors({"Acker-Anchors": ONE}, topology="orders")


def test_more_than_64_anchors_are_refused_with_advice():
    with pytest.raises(TooManyAnchors, match="hold the inputs unacked"):
        Anchors(topology="default", anchors=many(65))


def test_a_received_header_of_more_than_64_anchors_is_an_invalid_header():
    listed = ",".join(map(str, many(65)))
    with pytest.raises(InvalidHeader, match="at most 64"):
        parse_anchors(f"00 default {listed}")


def test_the_topology_of_a_message_can_be_asked_before_there_is_an_acker_for_it():
    headers = Anchors(topology="orders", anchors=(Anchor(root_id=1, edge_id=2),)).headers()
    assert topology_of(headers) == "orders"
    assert topology_of({}) is None
    with pytest.raises(InvalidHeader):
        topology_of({"Acker-Anchors": "orders"})


@pytest.mark.parametrize("headers", [5, "Acker-Anchors", [1]])
def test_what_are_no_headers_is_refused(headers):
    with pytest.raises(UsageError, match="must be a mapping or pairs"):
        topology_of(headers)


@pytest.mark.parametrize("headers", FORMS.values(), ids=FORMS)
def test_headers_are_read_in_each_form_that_libraries_give_them(headers):
    assert read_anchors(headers, topology="default") == ANCHORS


@pytest.mark.parametrize("headers", OTHER_NAMES)
def test_a_header_that_bears_the_name_of_wsgi_s_environment_is_another(headers):
    assert read_anchors(headers, topology="default").anchors == ()


def test_the_header_beside_its_name_of_wsgi_is_the_header_twice():
    headers = {"Acker-Anchors": ONE, "HTTP_ACKER_ANCHORS": ONE}
    with pytest.raises(InvalidHeader, match="given 2 times"):
        read_anchors(headers, topology="default")


def test_anchors_are_made_of_ids_in_turn() -> None:
    anchors = from_ids("orders", (1, 2, 3, 4))
    assert anchors == Anchors(topology="orders", anchors=(Anchor(root_id=1, edge_id=2), Anchor(root_id=3, edge_id=4)))
    assert anchors.ids == (1, 2, 3, 4)
