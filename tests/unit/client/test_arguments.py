"""Tests that arguments of the wrong kind are refused in words, and that nothing is sent for them."""

from collections.abc import Callable

import pytest
from acker_client import Acker, AsyncAcker, ReplayPolicy, UsageError, topology_of
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
        ({"linger": "5"}, "linger must be a number, not '5'"),
        ({"retry_timeout": None}, "retry_timeout must be a number, not None"),
        ({"retry_timeout": float("nan")}, "retry_timeout must be a number, not nan"),
        ({"request_timeout": True}, "request_timeout must be a number, not True"),
        ({"batch_size": 1.5}, "batch_size must be a whole number, not 1.5"),
    ],
)
def test_an_acker_is_not_made_of_arguments_of_the_wrong_kind(make, given, words):
    with pytest.raises(UsageError, match=words):
        make(**{"url": URL} | given)


MISSPELT: list[Callable[[Acker], object]] = [
    lambda _: Acker(URL, lingerms=5),
    lambda _: AsyncAcker(URL, lingerms=5),
    lambda acker: emit(acker, message_id="42", timeout_ms=500),
    lambda acker: read(acker, timeout=1),
]


@pytest.mark.parametrize("call", MISSPELT)
def test_a_misspelt_keyword_is_refused_by_python_itself(call):
    with MemoryAcker().acker(linger=0) as acker, pytest.raises(TypeError, match="unexpected keyword argument"):
        call(acker)


def emit(acker: Acker, **emission: object) -> None:
    with acker.shared_spout("orders").emit(**emission) as root:
        root.anchor()


def anchor_to_root(acker: Acker, name: object) -> None:
    with acker.shared_spout("orders").emit(message_id="42") as root:
        root.anchor(name)


def read(acker: Acker, **reading: object) -> None:
    list(acker.shared_spout("orders").completions(**reading))


def tup(acker: Acker):
    return acker.receive(HEADERS, component="bill")


def policy(**given: object) -> ReplayPolicy:
    return ReplayPolicy(**given)


CALLS: list[tuple[Callable[[Acker], object], str]] = [
    (lambda acker: acker.spout(None), "spout's name must be a name"),
    (lambda acker: acker.spout(5), "spout's name must be a name"),
    (lambda acker: emit(acker, message_id=42), "message_id must be a string"),
    (
        lambda acker: emit(acker, message_id="42", message_timeout="5"),
        "message_timeout must be a number, not '5'",
    ),
    (
        lambda acker: emit(acker, message_id="42", message_timeout=0.05),
        "message_timeout must be a number of seconds from 0.1 to 604800, not 0.05",
    ),
    (lambda acker: emit(acker, message_id="42", message_timeout=float("nan")), "a number of seconds from 0.1"),
    (lambda acker: anchor_to_root(acker, 5), "child's key must be a string, not 5"),
    (lambda acker: acker.receive("x", component="bill"), "headers must be a mapping or pairs, not \"'x'\""),
    (lambda acker: acker.receive(5, component="bill"), "headers must be a mapping or pairs"),
    (lambda acker: acker.receive({}, component=None), "component must be a name"),
    (lambda _: topology_of(5), "headers must be a mapping or pairs"),
    (lambda acker: acker.ack(HEADERS), "must be a tuple, as acker.receive.. gives it, not {'Acker-Anchors'"),
    (lambda acker: acker.ack(None), "must be a tuple, as acker.receive.. gives it, not None"),
    (lambda acker: acker.fail("x"), "must be a tuple"),
    (lambda acker: acker.fail(tup(acker), reason=ValueError("x")), "reason must be a string, not ValueError"),
    (lambda acker: acker.reset_timeout(HEADERS), "must be a tuple"),
    (lambda acker: acker.anchor([tup(acker)]), "must be a tuple"),
    (lambda acker: acker.anchor(tup(acker), key=5), "child's key must be a string, not 5"),
    (lambda acker: read(acker, until="1"), "until must be a number, not '1'"),
    (lambda acker: read(acker, stop=True), "stop must be a function, not True"),
    (lambda _: policy(max_attempts="5"), "max_attempts must be a whole number, not '5'"),
    (lambda _: policy(wait_initial=None), "wait_initial must be a number, not None"),
    (lambda acker: acker.shared_spout("orders").replay(None), "send must be a function, not None"),
    (lambda acker: acker.shared_spout("orders").replay(print, print), "policy must be a ReplayPolicy"),
]


@pytest.mark.parametrize(("call", "words"), CALLS)
def test_a_call_with_an_argument_of_the_wrong_kind_is_refused_in_words_and_sends_nothing(call, words):
    memory = MemoryAcker()
    with memory.acker(linger=0) as acker, pytest.raises(UsageError, match=words):
        call(acker)
    assert memory.writes() == []


def test_a_tuple_that_was_not_failed_for_a_wrong_reason_is_still_open():
    with MemoryAcker().acker(linger=0) as acker:
        one = tup(acker)
        with pytest.raises(UsageError):
            acker.fail(one, reason=5)
        assert not one.closed
