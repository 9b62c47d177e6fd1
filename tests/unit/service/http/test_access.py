"""Tests who may do what."""

import hmac

import pytest
from acker_protocol.errors import Forbidden, Unauthorized
from acker_service.http.access import ANONYMOUS_ADMIN, Key, Scope, authenticate, authorize, digest_of

ORDERS = Key(name="orders", digest=digest_of("one"), scope=Scope.SPOUT, topologies=frozenset({"orders"}))
WATCHER = Key(name="watcher", digest=digest_of("two"), scope=Scope.ADMIN)
KEYS = (ORDERS, WATCHER)


@pytest.mark.parametrize(
    ("scope", "covered"), [("ack", {"ack"}), ("spout", {"ack", "spout"}), ("admin", {"ack", "spout", "admin"})]
)
def test_a_scope_covers_those_before_it(scope, covered):
    assert {need for need in Scope if Scope(scope).includes(need)} == covered


@pytest.mark.parametrize(("secret", "key"), [("one", ORDERS), ("two", WATCHER)])
def test_a_key_is_known_by_its_hash(secret, key):
    assert authenticate(KEYS, secret) is key


@pytest.mark.parametrize("secret", ["three", "", None, "One", "one ", digest_of("one").hex()])
def test_anything_else_is_unauthorized(secret):
    with pytest.raises(Unauthorized):
        authenticate(KEYS, secret)


@pytest.mark.parametrize("secret", ["one", None])
def test_a_file_without_keys_lets_nobody_in(secret):
    with pytest.raises(Unauthorized):
        authenticate((), secret)


@pytest.mark.parametrize("secret", ["one", "", None])
def test_without_a_file_of_keys_anybody_may_do_anything(secret):
    assert authenticate(None, secret) is ANONYMOUS_ADMIN
    authorize(ANONYMOUS_ADMIN, Scope.ADMIN, "orders")


def test_every_key_is_compared_in_constant_time(monkeypatch):
    compared: list[bytes] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(one)
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert authenticate(KEYS, "one") is ORDERS
    assert compared == [ORDERS.digest, WATCHER.digest]


def test_what_is_remembered_of_a_key_is_its_sha_256():
    assert digest_of("abc").hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_a_digest_is_not_shown():
    assert "digest" not in repr(ORDERS)


@pytest.mark.parametrize("need", [Scope.ACK, Scope.SPOUT])
def test_a_key_may_do_what_its_scope_covers_on_its_topologies(need):
    authorize(ORDERS, need, "orders")
    authorize(ORDERS, need, None)


@pytest.mark.parametrize(
    ("need", "topology"), [(Scope.ADMIN, "orders"), (Scope.ADMIN, None), (Scope.ACK, "payments"), (Scope.ACK, "order")]
)
def test_a_key_may_do_nothing_beyond(need, topology):
    with pytest.raises(Forbidden):
        authorize(ORDERS, need, topology)


def test_a_key_for_all_topologies_sees_each():
    assert WATCHER.allows("orders")
    assert WATCHER.allows("payments")
    assert not ORDERS.allows("payments")
