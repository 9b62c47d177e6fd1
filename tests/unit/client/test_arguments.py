"""Tests that arguments of the wrong kind are refused in words, and that nothing is sent for them."""

from collections.abc import Callable

import pytest
from acker_client import Acker, AsyncAcker, Misuse, ReplayPolicy, topology_of
from acker_client.testing import MemoryAcker

HEADERS = {"Acker-Anchors": "00 default 00000000000000a1-00000000000000b1"}
URL = "http://acker.test"


@pytest.mark.parametrize("make", [Acker, AsyncAcker])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"url": 5}, "address 5 is not a URL"),
        ({"url": None}, "address None is not a URL"),
        ({"topology": None}, "topology must be a name"),
        ({"topology": 5}, "topology must be a name"),
        ({"api_key": 5}, "api_key must be a string, not 5"),
        ({"linger_ms": "5"}, "linger_ms must be a number, not '5'"),
        ({"retry_for_ms": None}, "retry_for_ms must be a number, not None"),
        ({"timeout_s": True}, "timeout_s must be a number, not True"),
        ({"batch_size": 1.5}, "batch_size must be a whole number, not 1.5"),
        ({"lingerms": 5}, "there is no argument lingerms; there are .*linger_ms"),
    ],
)
def test_an_acker_is_not_made_of_arguments_of_the_wrong_kind(make, given, words):
    with pytest.raises(Misuse, match=words):
        make(**{"url": URL} | given)


def emit(acker: Acker, **emission: object) -> None:
    with acker.spout("orders", shared=True).emit(**emission) as root:
        root.anchor()


def anchor_to_root(acker: Acker, name: object) -> None:
    with acker.spout("orders", shared=True).emit(message_id="42") as root:
        root.anchor(name)


def read(acker: Acker, **reading: object) -> None:
    list(acker.spout("orders", shared=True).completions(**reading))


def tuple_(acker: Acker):
    return acker.tuple(HEADERS, component="bill")


def policy(**given: object) -> ReplayPolicy:
    return ReplayPolicy(**{"send": print} | given)


CALLS: list[tuple[Callable[[Acker], object], str]] = [
    (lambda acker: acker.spout(None), "spout's name must be a name"),
    (lambda acker: acker.spout(5), "spout's name must be a name"),
    (lambda acker: emit(acker, message_id=42), "message_id must be a string"),
    (
        lambda acker: emit(acker, message_id="42", timeout_ms=500),
        "no argument timeout_ms; there are .*message_timeout_ms",
    ),
    (lambda acker: anchor_to_root(acker, 5), "child's name must be a string, not 5"),
    (lambda acker: acker.tuple("x", component="bill"), "headers must be a mapping or pairs, not \"'x'\""),
    (lambda acker: acker.tuple(5, component="bill"), "headers must be a mapping or pairs"),
    (lambda acker: acker.tuple({}, component=None), "component must be a name"),
    (lambda _: topology_of(5), "headers must be a mapping or pairs"),
    (lambda acker: acker.ack(HEADERS), "must be a tuple, as acker.tuple.. gives it, not {'Acker-Anchors'"),
    (lambda acker: acker.ack(None), "must be a tuple, as acker.tuple.. gives it, not None"),
    (lambda acker: acker.fail("x"), "must be a tuple"),
    (lambda acker: acker.fail(tuple_(acker), reason=ValueError("x")), "reason must be a string, not ValueError"),
    (lambda acker: acker.reset_timeout(HEADERS), "must be a tuple"),
    (lambda acker: acker.anchor([tuple_(acker)]), "must be a tuple"),
    (lambda acker: acker.anchor(tuple_(acker), name=5), "child's name must be a string, not 5"),
    (lambda acker: read(acker, timeout=1), "no argument timeout; there are limit, stop, timeout_s, wait_ms"),
    (lambda acker: read(acker, timeout_s="1"), "timeout_s must be a number, not '1'"),
    (lambda acker: read(acker, stop=True), "stop must be a function, not True"),
    (lambda _: policy(attempts="5"), "attempts must be a whole number, not '5'"),
    (lambda _: policy(first_wait_s=None), "first_wait_s must be a number, not None"),
    (lambda _: policy(send=None), "send must be a function, not None"),
    (lambda acker: acker.spout("orders", shared=True).replay(print), "policy must be a ReplayPolicy"),
]


@pytest.mark.parametrize(("call", "words"), CALLS)
def test_a_call_with_an_argument_of_the_wrong_kind_is_refused_in_words_and_sends_nothing(call, words):
    memory = MemoryAcker()
    with memory.acker(linger_ms=0) as acker, pytest.raises(Misuse, match=words):
        call(acker)
    assert memory.writes() == []


def test_a_tuple_that_was_not_failed_for_a_wrong_reason_is_still_open():
    with MemoryAcker().acker(linger_ms=0) as acker:
        one = tuple_(acker)
        with pytest.raises(Misuse):
            acker.fail(one, reason=5)
        assert not one.done
