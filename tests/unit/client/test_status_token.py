"""Tests the token in the address of a root's status."""

from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest
from acker_client import UsageError
from acker_client.integrations._status_token import HANDLE_BYTES, ExpiredToken, InvalidToken, StatusTokens

ROOT = "00000000000000a1"
HANDLE = bytes(range(HANDLE_BYTES))
OLD, NEW = "an old secret of 16 or more", "a new secret of 16 or more"


def tokens(*secrets: str, topology: str = "orders") -> StatusTokens:
    return StatusTokens(secrets or NEW, topology=topology, lifetime_s=60)


def made(*secrets: str, root: str = ROOT, handle: bytes = HANDLE) -> str:
    return tokens(*secrets).make(root, handle=handle, now_s=1_000)


def test_a_token_gives_its_root_until_it_expires():
    token = made()
    assert len(token) == 64
    assert tokens().read(token, now_s=1_059.9) == ROOT
    with pytest.raises(ExpiredToken):
        tokens().read(token, now_s=1_060)


@pytest.mark.parametrize("root", [ROOT, "ffffffffffffffff", "0123456789abcdef"])
def test_a_token_tells_no_root_id_and_no_time(root):
    data = urlsafe_b64decode(made(root=root))
    assert bytes.fromhex(root) not in data
    assert (1_060).to_bytes(8, "big") not in data
    assert data.startswith(HANDLE)


def test_two_tokens_of_one_root_have_nothing_in_common():
    one, other = (urlsafe_b64decode(made(handle=bytes([first, *HANDLE[1:]]))) for first in (1, 2))
    assert not any(one[at : at + 4] in other[HANDLE_BYTES:] for at in range(HANDLE_BYTES, len(one) - 3))


def test_the_sum_of_two_tokens_tells_nothing_of_their_roots():
    """With one handle for both, the XOR of the ciphers would be that of the roots."""
    one, other = (urlsafe_b64decode(made(root=root, handle=bytes([first, *HANDLE[1:]])))
                  for root, first in ((ROOT, 1), ("00000000000000a2", 2)))  # fmt: skip
    ciphers = (int.from_bytes(each[HANDLE_BYTES : HANDLE_BYTES + 8], "big") for each in (one, other))
    assert next(ciphers) ^ next(ciphers) != 0xA1 ^ 0xA2


def test_all_secrets_are_accepted_and_the_first_signs():
    old = made(OLD)
    rotated = tokens(NEW, OLD)
    assert rotated.read(old, now_s=1_000) == ROOT
    assert tokens(NEW).read(rotated.make(ROOT, handle=HANDLE, now_s=1_000), now_s=1_000) == ROOT
    with pytest.raises(InvalidToken):
        tokens(NEW).read(old, now_s=1_000)


def test_a_token_of_another_topology_is_invalid():
    with pytest.raises(InvalidToken):
        tokens(topology="bills").read(made(), now_s=1_000)


def test_a_token_with_any_character_changed_is_invalid():
    token = made()
    for at in range(len(token)):
        changed = token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :]
        with pytest.raises(InvalidToken):
            tokens().read(changed, now_s=1_000)


def test_the_parts_of_two_tokens_make_no_third():
    one, other = (urlsafe_b64decode(made(root=root, handle=handle))
                  for root, handle in ((ROOT, HANDLE), ("00000000000000a2", HANDLE[::-1])))  # fmt: skip
    for mixed in (one[:16] + other[16:], one[:32] + other[32:], one[:16] + other[16:32] + one[32:]):
        with pytest.raises(InvalidToken):
            tokens().read(urlsafe_b64encode(mixed).decode(), now_s=1_000)


@pytest.mark.parametrize("token", ["", "x", "ä" * 64, "A" * 64, "A" * 4_000, "../" * 9, "=" * 64, "A" * 63 + "\n"])
def test_what_is_no_token_is_invalid(token: str):
    with pytest.raises(InvalidToken):
        tokens().read(token, now_s=1_000)


@pytest.mark.parametrize(
    "secret", ["", "short", [], ["long enough to be a secret", "short"], None, b"sixteen bytes or more"]
)
def test_a_secret_that_can_be_guessed_is_refused(secret):
    with pytest.raises(UsageError, match="secret"):
        StatusTokens(secret, topology="orders", lifetime_s=60)
