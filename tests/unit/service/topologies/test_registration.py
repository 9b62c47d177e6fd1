from dataclasses import replace

import pytest
from acker_service.topologies.callback import Callback, PubSub, Webhook
from acker_service.topologies.registration import (
    ROTATION_MS,
    CallbackStatus,
    RegisteredCallback,
    Secret,
    deactivate,
    decode_registered,
    generated_secret,
    register_callback,
    resume,
    rotate,
)

URL = "https://orders.example"
HOOK = RegisteredCallback(kind="webhook", callback_epoch_ms=10, url=URL, secrets=(Secret(text="one"),))
CHANNEL = RegisteredCallback(kind="pubsub", callback_epoch_ms=10)


def put(callback: Callback, present: RegisteredCallback | None, *, now_ms: int = 50) -> RegisteredCallback:
    return register_callback(callback, present, now_ms=now_ms, make_secret=lambda: "made")


def test_a_webhook_without_a_secret_gets_one_that_is_told_once() -> None:
    made = put(Webhook(url=URL), None)
    assert made == replace(HOOK, callback_epoch_ms=50, secrets=(Secret(text="made"),))
    assert generated_secret(Webhook(url=URL), None, made) == "made"
    assert generated_secret(Webhook(url=URL), made, made) is None


@pytest.mark.parametrize("callback", [None, PubSub(), Webhook(url=URL, secret="given")])
def test_no_secret_is_told_that_was_not_made(callback: Callback | None) -> None:
    assert generated_secret(callback, None, callback and put(callback, None)) is None


def test_the_same_callback_changes_nothing_its_state_neither() -> None:
    for present in (HOOK, deactivate(HOOK, CallbackStatus.PAUSED, "answered 500")):
        assert put(Webhook(url=URL), present) == put(Webhook(url=URL, secret="one"), present) == present
    assert put(PubSub(), CHANNEL) == CHANNEL


def test_another_secret_takes_the_place_of_the_present_one() -> None:
    assert put(Webhook(url=URL, secret="two"), HOOK) == replace(HOOK, secrets=(Secret(text="two"),))


@pytest.mark.parametrize("present", [HOOK, deactivate(HOOK, CallbackStatus.OFF, "answered 410")])
def test_one_that_is_led_elsewhere_begins_anew_and_keeps_its_secret(present: RegisteredCallback) -> None:
    assert put(Webhook(url=URL + "/2"), present) == replace(HOOK, callback_epoch_ms=50, url=URL + "/2")


def test_one_of_another_kind_begins_anew_later_than_before_whatever_the_clock_says() -> None:
    assert put(PubSub(), HOOK) == replace(CHANNEL, callback_epoch_ms=50)
    assert put(PubSub(), HOOK, now_ms=3).callback_epoch_ms == 11
    assert put(Webhook(url=URL), CHANNEL).callback_epoch_ms == 50


def test_after_a_rotation_both_secrets_sign_for_a_day() -> None:
    rotated = rotate(HOOK, now_ms=100, secret="two")
    assert rotated.secrets_at(100 + ROTATION_MS - 1) == ["two", "one"]
    assert rotated.secrets_at(100 + ROTATION_MS) == ["two"]
    assert rotate(rotated, now_ms=200, secret="three").secrets_at(200) == ["three", "two"]


def test_one_that_is_stopped_is_resumed_and_begins_anew() -> None:
    stopped = deactivate(HOOK, CallbackStatus.PAUSED, "answered 500")
    assert (stopped.callback_epoch_ms, stopped.error) == (10, "answered 500")
    assert resume(stopped, now_ms=50) == replace(HOOK, callback_epoch_ms=50)
    assert resume(HOOK, now_ms=50) == HOOK


def test_what_is_shown_holds_no_secret() -> None:
    assert HOOK.public() == {"kind": "webhook", "url": URL, "state": "on"}
    assert CHANNEL.public() == {"kind": "pubsub", "state": "on"}
    assert deactivate(CHANNEL, CallbackStatus.OFF, "gone").public() == {
        "kind": "pubsub",
        "state": "off",
        "error": "gone",
    }
    assert "sesame" not in repr(replace(HOOK, secrets=(Secret(text="sesame"),)))


def test_only_a_webhook_owns_its_completions() -> None:
    assert (HOOK.owns_mailbox, CHANNEL.owns_mailbox) == (True, False)


@pytest.mark.parametrize(
    "callback", [CHANNEL, HOOK, rotate(deactivate(HOOK, CallbackStatus.OFF, "gone"), now_ms=1, secret="two")]
)
def test_what_is_kept_is_read_again_and_what_a_later_release_adds_is_passed_over(callback: RegisteredCallback) -> None:
    assert decode_registered(callback.document()) == callback
    assert decode_registered(callback.document() | {"colour": "green"}) == callback
