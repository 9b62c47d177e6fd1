"""Tests the signatures of webhooks against the reference library of Standard Webhooks."""

import base64
from datetime import UTC, datetime

import pytest
from acker_protocol.signature import make_secret, secret_key, sign, signed_headers, verify
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

NOW = 1_790_000_000
BODY = b'{"type": "completion.batch"}'
OLD, NEW, FOREIGN = (make_secret(lambda size, fill=fill: fill * size) for fill in (b"o", b"n", b"f"))


def signed(*secrets: str, at: int = NOW) -> dict[str, str]:
    return signed_headers(secrets, message="msg_1", timestamp=at, body=BODY)


@given(
    st.binary(min_size=24, max_size=64),
    st.text("abcdef_0123456789", min_size=1),
    st.integers(0, 2**32),
    st.text().map(str.encode),
)
def test_a_signature_is_the_one_of_the_reference_library(key, message, timestamp, body):
    secret = make_secret(lambda _: key)
    theirs = Webhook(secret).sign(message, datetime.fromtimestamp(timestamp, tz=UTC), body.decode())
    assert sign([secret], message=message, timestamp=timestamp, body=body) == theirs


def test_the_reference_library_accepts_what_we_sign_with_either_secret():
    now = int(datetime.now(tz=UTC).timestamp())
    headers = signed(NEW, OLD, at=now)
    for secret in (NEW, OLD):
        assert Webhook(secret).verify(BODY, headers) == {"type": "completion.batch"}
    with pytest.raises(WebhookVerificationError):
        Webhook(FOREIGN).verify(BODY, headers)


def test_what_the_reference_library_signs_is_accepted():
    theirs = Webhook(OLD).sign("msg_1", datetime.fromtimestamp(NOW, tz=UTC), BODY.decode())
    verify([NEW, OLD], signed(NEW) | {"webhook-signature": theirs}, BODY, now=NOW)


def test_the_example_of_the_specification_holds():
    signature = sign(
        ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        message="msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp=1614265330,
        body=b'{"test": 2432232314}',
    )
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_there_is_one_signature_for_each_secret_in_their_order():
    assert signed(NEW, OLD)["webhook-signature"] == " ".join(signed(one)["webhook-signature"] for one in (NEW, OLD))


def test_any_of_the_secrets_and_any_of_the_signatures_may_fit():
    verify([FOREIGN, OLD], signed(NEW, OLD), BODY, now=NOW)


def test_signatures_of_other_versions_are_passed_over():
    headers = signed(OLD)
    headers["webhook-signature"] = "v1a,AAAA nonsense " + headers["webhook-signature"]
    verify([OLD], headers, BODY, now=NOW)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"webhook-id": "msg_2"}, "none that fits"),
        ({"webhook-timestamp": str(NOW + 1)}, "none that fits"),
        ({"webhook-signature": "v1,AAAA"}, "none that fits"),
        ({"webhook-signature": "ü"}, "none that fits"),
        ({"webhook-id": ""}, "are needed"),
        ({"webhook-timestamp": ""}, "are needed"),
        ({"webhook-signature": ""}, "are needed"),
        ({"webhook-timestamp": "soon"}, "Unix seconds"),
        ({"webhook-timestamp": "-1"}, "Unix seconds"),
        ({"webhook-timestamp": "1e9"}, "Unix seconds"),
        ({"webhook-timestamp": "٣"}, "Unix seconds"),
        ({"webhook-timestamp": "9" * 13}, "Unix seconds"),
    ],
)
def test_what_was_changed_on_the_way_is_refused(changed, said):
    verify([OLD], signed(OLD), BODY, now=NOW)
    with pytest.raises(ValueError, match=said):
        verify([OLD], signed(OLD) | changed, BODY, now=NOW)


def test_a_changed_body_another_secret_and_no_secret_are_refused():
    for secrets, body in (([OLD], BODY + b" "), ([NEW], BODY), ([], BODY)):
        with pytest.raises(ValueError, match="none that fits"):
            verify(secrets, signed(OLD), body, now=NOW)


@pytest.mark.parametrize("way", [-1, 1])
def test_a_timestamp_may_be_as_far_from_now_as_is_tolerated(way):
    verify([OLD], signed(OLD), BODY, now=NOW + way * 300)
    verify([OLD], signed(OLD), BODY, now=NOW + way * 7, tolerance_s=7)
    with pytest.raises(ValueError, match="more than 300 s from now"):
        verify([OLD], signed(OLD), BODY, now=NOW + way * 301)
    with pytest.raises(ValueError, match=r"more than 6\.5 s"):
        verify([OLD], signed(OLD), BODY, now=NOW + way * 7, tolerance_s=6.5)


def test_a_secret_is_drawn_again_each_time():
    secrets = {make_secret() for _ in range(100)}
    assert len(secrets) == 100
    assert {len(secret_key(secret)) for secret in secrets} == {32}


@pytest.mark.parametrize("size", [24, 25, 26, 64])
def test_a_secret_is_read_as_it_is_made(size):
    secret = make_secret(lambda size: b"\xfb\xff" * (size // 2) + b"x" * (size % 2), size=size)
    assert secret_key(secret) == base64.b64decode(secret.removeprefix("whsec_"))
    assert len(secret_key(secret)) == size


@pytest.mark.parametrize("end", ["AAA", "AA", "AA=", "AAA==", "AB==", "AAB=", "AA==AA==", "A=AA", " AAA"])
def test_a_secret_that_libraries_of_other_languages_do_not_read_is_refused(end):
    with pytest.raises(ValueError, match="padded with = to a multiple of four characters"):
        secret_key("whsec_" + "A" * 32 + end)


@pytest.mark.parametrize("size", [0, 23, 65])
def test_a_secret_of_another_length_is_not_made(size):
    with pytest.raises(ValueError, match=f"24 to 64 bytes, not {size}"):
        make_secret(size=size)


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        "A" * 40,
        "whsec_" + "A" * 28,
        "whsec_" + "A" * 90,
        "whsec_" + "A" * 41,
        "whsec_" + "A" * 39 + "-",
        "whsec_" + "A" * 39 + "===",
        "whsec_" + "A" * 39 + "=\n",
        "whsec_" + "Ä" * 40,
        "WHSEC_" + "A" * 40,
    ],
)
def test_another_text_is_no_secret_and_is_not_shown(secret):
    with pytest.raises(ValueError, match="must be whsec_ and the base64 of 24 to 64 bytes") as refusal:
        secret_key(secret)
    assert "AAAA" not in str(refusal.value)
