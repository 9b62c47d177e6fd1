"""Tests the token in the address of a root's status."""

import pytest
from acker_client import UsageError
from acker_client.integrations._status_token import ExpiredToken, InvalidToken, StatusTokens

ROOT = "00000000000000a1"
OLD, NEW = "an old secret of 16 or more", "a new secret of 16 or more"


def tokens(*secrets: str, topology: str = "orders") -> StatusTokens:
    return StatusTokens(secrets or NEW, topology=topology, lifetime_s=60)


def test_a_token_gives_its_root_until_it_expires():
    token = tokens().make(ROOT, now_s=1_000)
    assert len(token) == 43
    assert tokens().read(token, now_s=1_059.9) == ROOT
    with pytest.raises(ExpiredToken):
        tokens().read(token, now_s=1_060)


def test_all_secrets_are_accepted_and_the_first_signs():
    old = tokens(OLD).make(ROOT, now_s=1_000)
    rotated = tokens(NEW, OLD)
    assert rotated.read(old, now_s=1_000) == ROOT
    assert tokens(NEW).read(rotated.make(ROOT, now_s=1_000), now_s=1_000) == ROOT
    with pytest.raises(InvalidToken):
        tokens(NEW).read(old, now_s=1_000)


def test_a_token_of_another_topology_is_invalid():
    with pytest.raises(InvalidToken):
        tokens(topology="bills").read(tokens().make(ROOT, now_s=1_000), now_s=1_000)


def test_a_token_with_any_character_changed_is_invalid():
    token = tokens().make(ROOT, now_s=1_000)
    for at in range(len(token) - 1):  # the last one holds four bits that mean nothing
        changed = token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :]
        with pytest.raises(InvalidToken):
            tokens().read(changed, now_s=1_000)


@pytest.mark.parametrize("token", ["", "x", "ä" * 43, "A" * 43, "A" * 4_000, "../" * 9, "=" * 43])
def test_what_is_no_token_is_invalid(token: str):
    with pytest.raises(InvalidToken):
        tokens().read(token, now_s=1_000)


@pytest.mark.parametrize("secret", ["", "short", [], ["long enough to be a secret", "short"]])
def test_a_secret_that_can_be_guessed_is_refused(secret):
    with pytest.raises(UsageError, match="16 characters"):
        StatusTokens(secret, topology="orders", lifetime_s=60)
