"""Tests the proof that anchors over HTTP come from a holder of a secret."""

import hashlib
import hmac

import pytest
from acker_protocol.anchors_signature import TOLERANCE_S, check_signature, secret_keys, write_signature
from acker_protocol.errors import InvalidHeader, InvalidSignature

ANCHORS = "00 default 00000000000000aa-00000000000000bb"
OTHER = "00 default 00000000000000aa-00000000000000cc"
OLD, NEW = "an old secret of 16 or more", "ein neues Geheimnis: 刘备"
NOW_S = 1_790_000_000.9


def signed(*secrets: str, anchors: str = ANCHORS, now_s: float = NOW_S) -> dict[str, str]:
    signature = write_signature(secret_keys(secrets or NEW), anchors, now_s=now_s)
    return {"Acker-Anchors": anchors, "Acker-Anchors-Signature": signature}


def check(headers: object, *secrets: str, now_s: float = NOW_S) -> None:
    check_signature(secret_keys(secrets or NEW), headers, now_s=now_s)


def test_a_signature_is_the_version_the_time_and_an_hmac_over_both_and_the_anchors():
    mac = hmac.new(NEW.encode(), f"00 1790000000 {ANCHORS}".encode(), hashlib.sha256).hexdigest()
    assert signed()["Acker-Anchors-Signature"] == f"00 1790000000 {mac}"


@pytest.mark.parametrize("off_s", [-TOLERANCE_S, 0, TOLERANCE_S])
def test_signed_anchors_are_accepted_for_five_minutes(off_s):
    check(signed(), now_s=1_790_000_000 + off_s)


@pytest.mark.parametrize("off_s", [-TOLERANCE_S - 1, TOLERANCE_S + 1, 86_400 * 365])
def test_a_signature_of_another_time_is_refused(off_s):
    with pytest.raises(InvalidSignature, match="more than 300 s from now"):
        check(signed(), now_s=1_790_000_000 + off_s)


def test_the_first_secret_signs_and_any_is_accepted():
    check(signed(OLD), NEW, OLD)
    check(signed(NEW, OLD), NEW)
    with pytest.raises(InvalidSignature, match="another secret"):
        check(signed(NEW, OLD), OLD)


@pytest.mark.parametrize("headers", [None, {}, {"x": "y"}, [(b"acker-anchors-signature", b"nonsense")]])
def test_a_message_without_anchors_needs_no_proof(headers):
    check(headers)


@pytest.mark.parametrize(
    "headers",
    [
        {"HTTP_ACKER_ANCHORS": ANCHORS, "HTTP_ACKER_ANCHORS_SIGNATURE": signed()["Acker-Anchors-Signature"]},
        [(name.lower().encode(), f" {value}\t".encode()) for name, value in signed().items()],
        {name.upper(): [value] for name, value in signed().items()},
    ],
    ids=["wsgi", "asgi", "lists"],
)
def test_headers_are_read_in_each_form_that_libraries_give_them(headers):
    check(headers)


@pytest.mark.parametrize(
    "change",
    [
        {"Acker-Anchors": OTHER},
        {"Acker-Anchors": f"{ANCHORS},00000000000000aa-00000000000000cc"},
        {"Acker-Anchors": "nonsense"},
        {"Acker-Anchors": "ä"},
        {"Acker-Anchors": "\udcff"},
        {"Acker-Anchors-Signature": signed(OLD)["Acker-Anchors-Signature"]},
        {"Acker-Anchors-Signature": signed(anchors=OTHER)["Acker-Anchors-Signature"]},
    ],
)
def test_a_signature_of_anything_else_is_refused(change):
    with pytest.raises(InvalidSignature, match="another secret, or for other anchors"):
        check(signed() | change)


def test_a_signature_with_any_character_changed_is_refused():
    signature = signed()["Acker-Anchors-Signature"]
    for at, character in enumerate(signature):
        changed = signature[:at] + ("0" if character != "0" else "1") + signature[at + 1 :]
        with pytest.raises(InvalidSignature):
            check(signed() | {"Acker-Anchors-Signature": changed})


@pytest.mark.parametrize(
    "value", ["", "nonsense", "00  ", "00 \u0661 " + 64 * "a", "00 1 " + 63 * "a", "00 1 " + 65 * "a"]
)
def test_what_is_no_signature_is_refused(value):
    with pytest.raises(InvalidSignature, match="must be 00, a time in Unix seconds and 64 hex digits"):
        check(signed() | {"Acker-Anchors-Signature": value})


@pytest.mark.parametrize("signatures", [[], 2 * [signed()["Acker-Anchors-Signature"]]])
def test_anchors_need_one_signature(signatures):
    with pytest.raises(InvalidSignature, match=f"needs one Acker-Anchors-Signature here, and has {len(signatures)}"):
        check({"Acker-Anchors": ANCHORS, "Acker-Anchors-Signature": signatures})


def test_two_headers_of_anchors_are_refused_whatever_is_signed():
    with pytest.raises(InvalidHeader, match="given 2 times"):
        check(signed() | {"acker-anchors": OTHER})


@pytest.mark.parametrize("secrets", ["", "short", [], [NEW, "short"], [b"bytes of 16 or more"], [None]])
def test_a_secret_that_can_be_guessed_is_refused_and_not_shown(secrets):
    with pytest.raises(ValueError, match="must have 16 characters at least") as refused:
        secret_keys(secrets)
    assert "short" not in str(refused.value)
