"""Tests what may be said of how completions reach a spout task, and how that is registered."""

from dataclasses import replace

import pytest
from acker_protocol.errors import InvalidRequest
from acker_protocol.signature import make_secret
from acker_protocol.wire.operations import check
from acker_service.topologies.callback import (
    ROTATION_MS,
    Address,
    Callback,
    CallbackStatus,
    PubSub,
    RegisteredCallback,
    Secret,
    Webhook,
    deactivate,
    decode_registered,
    generated_secret,
    pause,
    read_address,
    read_callback,
    register_callback,
    resume,
    rotate,
)

URL = "https://hooks.example.com/acker"
SECRET = make_secret()

ORDERS_URL = "https://orders.example"
HOOK = RegisteredCallback(kind="webhook", callback_epoch_ms=10, url=ORDERS_URL, secrets=(Secret(text="one"),))
CHANNEL = RegisteredCallback(kind="pubsub", callback_epoch_ms=10)


def test_a_webhook_has_a_url_and_may_have_a_secret():
    assert read_callback({"kind": "webhook", "url": URL}) == Webhook(url=URL, secret=None)
    assert read_callback({"kind": "webhook", "url": URL, "secret": None}) == Webhook(url=URL)
    assert read_callback({"kind": "webhook", "url": URL, "secret": SECRET}) == Webhook(url=URL, secret=SECRET)


def test_a_secret_does_not_show_where_a_webhook_is_printed():
    assert SECRET not in repr(Webhook(url=URL, secret=SECRET))


def test_pubsub_needs_no_more_than_its_kind():
    assert read_callback({"kind": "pubsub"}) == PubSub()


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("https://x", "must be null or an object"),
        ([], "must be null or an object"),
        ({}, "kind must be webhook or pubsub"),
        ({"kind": None}, "kind must be"),
        ({"kind": ["webhook"]}, "kind must be"),
        ({"kind": "smoke"}, "kind must be"),
        ({"kind": "webhook"}, "url is missing"),
        ({"kind": "webhook", "url": None}, "url is missing"),
        ({"kind": "webhook", "url": 1}, "url must be a string"),
        ({"kind": "webhook", "url": "\ud800"}, "url must be valid Unicode"),
        ({"kind": "webhook", "url": "ftp://x/"}, "url must be an http or https URL"),
        ({"kind": "webhook", "url": URL, "secret": 7}, "secret must be a string"),
        ({"kind": "webhook", "url": URL, "secret": "whsec_short"}, "secret must be whsec_ and the base64"),
        ({"kind": "webhook", "url": URL, "secret": SECRET.rstrip("=")}, "secret must be whsec_ .* padded with ="),
        ({"kind": "webhook", "url": URL, "headers": {}}, "has no field 'headers' for its kind"),
        ({"kind": "pubsub", "url": URL}, "has no field 'url' for its kind"),
    ],
)
def test_anything_else_is_refused_by_name(document, said):
    with pytest.raises(InvalidRequest, match=f"callback {said}"):
        check({"callback": document}, {"callback": read_callback})


@pytest.mark.parametrize(
    ("url", "scheme", "host", "port", "target"),
    [
        ("http://h", "http", "h", 80, "/"),
        ("https://h", "https", "h", 443, "/"),
        ("HTTPS://H.Example/", "https", "h.example", 443, "/"),
        ("http://h:8080/a/b?c=d&e", "http", "h", 8080, "/a/b?c=d&e"),
        ("http://h:/", "http", "h", 80, "/"),
        ("http://h:00080/?", "http", "h", 80, "/?"),
        ("http://h?c", "http", "h", 80, "/?c"),
        ("http://h/a;b=%20%2F?c=/?", "http", "h", 80, "/a;b=%20%2F?c=/?"),
        ("http://[2001:DB8::1]:81/", "http", "2001:db8::1", 81, "/"),
        ("http://127.0.0.1/", "http", "127.0.0.1", 80, "/"),
        ("http://2130706433/", "http", "2130706433", 80, "/"),
        ("http://my_service.ns.svc.cluster.local.:1/", "http", "my_service.ns.svc.cluster.local.", 1, "/"),
        ("http://xn--bcher-kva.example/", "http", "xn--bcher-kva.example", 80, "/"),
        (f"http://{'a' * 63}/", "http", "a" * 63, 80, "/"),
        ("http://h/" + "a" * 2_039, "http", "h", 80, "/" + "a" * 2_039),
    ],
)
def test_a_url_is_read_into_where_it_leads(url, scheme, host, port, target):
    assert read_address(url) == Address(scheme=scheme, host=host, port=port, target=target)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "visible ASCII"),
        ("http://h/" + "a" * 2_040, "at most 2048 characters"),
        ("http://h/ ", "visible ASCII"),
        ("http://h/\tx", "visible ASCII"),
        ("http://h/\r\nX: y", "visible ASCII"),
        ("http://bücher.example/", "xn-- form"),
        ("http://h\\@evil/", "visible ASCII"),
        ("http://h/#", "no fragment"),
        ("http://h/#a", "no fragment"),
        ("h", "http or https"),
        ("//h/", "http or https"),
        ("/path", "http or https"),
        ("http:/h", "http or https"),
        ("http://", "http or https"),
        ("http:///path", "http or https"),
        ("file:///etc/passwd", "http or https"),
        ("gopher://h/", "http or https"),
        ("http+unix://h/", "http or https"),
        ("http://[::1/", "a host name"),
        ("http://u@h/", "no user"),
        ("http://u:p@h/", "no user"),
        ("http://@h/", "no user"),
        ("http://:80/", "a host name"),
        ("http://a..b/", "a host name"),
        ("http://.a/", "a host name"),
        ("http://a../", "a host name"),
        ("http://a%00b/", "a host name"),
        ("http://a*/", "a host name"),
        (f"http://{'a' * 64}/", "a host name"),
        (f"http://{'.'.join(['a' * 50] * 5)}/", "a host name"),
        ("http://[h]/", "a host name"),
        ("http://[1.2.3.4]/", "a host name"),
        ("http://[:::]/", "a host name"),
        ("http://[fe80::1%251]/", "a host name"),
        ("http://[::1]x/", "a host name"),
        ("http://x[::1]/", "a host name"),
        ("http://::1/", "a host name"),
        ("http://h:80:80/", "a host name"),
        ("http://h:x/", "a host name"),
        ("http://h:-1/", "a host name"),
        ("http://h:0/", "a port from 1 to 65535"),
        ("http://h:65536/", "a port from 1 to 65535"),
        ("http://h:000080/", "a port from 1 to 65535"),
    ],
)
def test_a_url_that_could_be_read_in_two_ways_or_says_too_much_is_refused(url, said):
    with pytest.raises(ValueError, match="must"):
        read_address(url)
    with pytest.raises(ValueError, match=said):
        read_address(url)


@pytest.mark.parametrize(
    ("url", "authority", "name"),
    [
        ("http://h/", "h", "h"),
        ("http://h:80/", "h", "h"),
        ("http://h:443/", "h:443", "h"),
        ("https://h:443/", "h", "h"),
        ("https://h:80/", "h:80", "h"),
        ("http://[::1]/", "[::1]", "::1"),
        ("http://[::1]:8080/", "[::1]:8080", "::1"),
        ("https://h.example.:8443/", "h.example:8443", "h.example"),
    ],
)
def test_the_receiver_is_told_the_name_it_was_called_by(url, authority, name):
    assert (read_address(url).authority, read_address(url).name) == (authority, name)


# Registered callbacks -------------------------------------------------------------------------------------------------


def put(callback: Callback, present: RegisteredCallback | None, *, now_ms: int = 50) -> RegisteredCallback:
    return register_callback(callback, present, now_ms=now_ms, make_secret=lambda: "made")


def test_a_webhook_without_a_secret_gets_one_that_is_told_once() -> None:
    made = put(Webhook(url=ORDERS_URL), None)
    assert made == replace(HOOK, callback_epoch_ms=50, secrets=(Secret(text="made"),))
    assert generated_secret(Webhook(url=ORDERS_URL), None, made) == "made"
    assert generated_secret(Webhook(url=ORDERS_URL), made, made) is None


@pytest.mark.parametrize("callback", [None, PubSub(), Webhook(url=ORDERS_URL, secret="given")])
def test_no_secret_is_told_that_was_not_made(callback: Callback | None) -> None:
    assert generated_secret(callback, None, callback and put(callback, None)) is None


def test_the_same_callback_changes_nothing_its_state_neither() -> None:
    for present in (HOOK, deactivate(HOOK, CallbackStatus.PAUSED, "answered 500")):
        assert put(Webhook(url=ORDERS_URL), present) == put(Webhook(url=ORDERS_URL, secret="one"), present) == present
    assert put(PubSub(), CHANNEL) == CHANNEL


def test_another_secret_takes_the_place_of_the_present_one() -> None:
    assert put(Webhook(url=ORDERS_URL, secret="two"), HOOK) == replace(HOOK, secrets=(Secret(text="two"),))


@pytest.mark.parametrize("present", [HOOK, deactivate(HOOK, CallbackStatus.OFF, "answered 410")])
def test_one_that_is_led_elsewhere_begins_anew_and_keeps_its_secret(present: RegisteredCallback) -> None:
    assert put(Webhook(url=ORDERS_URL + "/2"), present) == replace(HOOK, callback_epoch_ms=50, url=ORDERS_URL + "/2")


def test_one_of_another_kind_begins_anew_later_than_before_whatever_the_clock_says() -> None:
    assert put(PubSub(), HOOK) == replace(CHANNEL, callback_epoch_ms=50)
    assert put(PubSub(), HOOK, now_ms=3).callback_epoch_ms == 11
    assert put(Webhook(url=ORDERS_URL), CHANNEL).callback_epoch_ms == 50


def test_after_a_rotation_both_secrets_sign_for_a_day() -> None:
    rotated = rotate(HOOK, now_ms=100, secret="two")
    assert rotated.secrets_at(100 + ROTATION_MS - 1) == ["two", "one"]
    assert rotated.secrets_at(100 + ROTATION_MS) == ["two"]
    assert rotate(rotated, now_ms=200, secret="three").secrets_at(200) == ["three", "two"]


def test_one_that_is_stopped_is_resumed_and_begins_anew() -> None:
    stopped = deactivate(HOOK, CallbackStatus.PAUSED, "answered 500")
    assert (stopped.callback_epoch_ms, stopped.error) == (10, "answered 500")
    assert resume(stopped, now_ms=50) == replace(HOOK, callback_epoch_ms=50)
    assert resume(HOOK, now_ms=50) == replace(HOOK, callback_epoch_ms=50)  # what waits for its next try is tried now


def test_one_that_publishes_waits_for_no_try_and_is_resumed_as_it_is() -> None:
    publishing = RegisteredCallback(kind="pubsub", callback_epoch_ms=7)
    assert resume(publishing, now_ms=50) == publishing


def test_what_is_shown_holds_no_secret() -> None:
    assert HOOK.public() == {"kind": "webhook", "url": ORDERS_URL, "state": "on"}
    assert CHANNEL.public() == {"kind": "pubsub", "state": "on"}
    assert deactivate(CHANNEL, CallbackStatus.OFF, "gone").public() == {"kind": "pubsub", "state": "off"}
    assert "sesame" not in repr(replace(HOOK, secrets=(Secret(text="sesame"),)))


def test_only_a_webhook_owns_its_completions() -> None:
    assert (HOOK.owns_mailbox, CHANNEL.owns_mailbox) == (True, False)


@pytest.mark.parametrize(
    "callback", [CHANNEL, HOOK, rotate(deactivate(HOOK, CallbackStatus.OFF, "gone"), now_ms=1, secret="two")]
)
def test_what_is_kept_is_read_again_and_what_a_later_release_adds_is_passed_over(callback: RegisteredCallback) -> None:
    assert decode_registered(callback.document()) == callback
    assert decode_registered(callback.document() | {"colour": "green"}) == callback


def test_a_callback_that_is_on_can_be_paused_and_one_that_is_off_stays_off():
    assert pause(HOOK) == replace(HOOK, state=CallbackStatus.PAUSED)
    off = deactivate(HOOK, CallbackStatus.OFF, "gone")
    assert pause(off) == off
    assert pause(pause(HOOK)) == pause(HOOK)
