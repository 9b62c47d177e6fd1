"""Tests how the responses of receivers are classified."""

import pytest
from acker_service.delivery.response import (
    DeliveryResult,
    ReceiverResponse,
    ResultKind,
    classify,
    no_response,
    retry_after_s,
)
from hypothesis import given
from hypothesis import strategies as st

IDS = ("a", "b", "c")
NOW = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT


def classified(status: int, body: bytes = b"", **fields) -> DeliveryResult:
    return classify(ReceiverResponse(status=status, body=body, **fields), IDS, now=NOW, wait_max_s=3_600)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
@pytest.mark.parametrize(
    "body", [b"", b"{}", b"ok", b"<html>", b"null", b"[]", b"7", b'"retry"', b"\xff\xfe\x00", b"{"]
)
def test_a_success_is_done_whatever_was_said_with_it(status, body):
    assert classified(status, body) == DeliveryResult(kind=ResultKind.DONE, status=status)


@pytest.mark.parametrize("found", ["null", '"a"', "7", '{"a": 1}', "[]", "[1, null, {}]", '["z"]', '["A"]'])
def test_a_list_that_names_none_of_them_is_done(found):
    assert classified(200, f'{{"retry": {found}}}'.encode()) == DeliveryResult(kind=ResultKind.DONE, status=200)


@pytest.mark.parametrize("body", [b"[" * 200_000, b"9" * 10_000], ids=["deep", "long"])
def test_json_made_to_break_a_reader_is_no_list(body):
    assert classified(200, body).kind is ResultKind.DONE


def test_those_in_the_list_are_posted_again_in_the_order_of_the_post():
    result = classified(200, b'{"retry": ["c", "z", 1, "a", "c"], "more": true}')
    assert (result.kind, result.retry_ids) == (ResultKind.PART, ("a", "c"))
    assert result.error == "answered 200 and asked for these again"


def test_all_of_them_may_be_in_the_list():
    assert classified(200, b'{"retry": ["a", "b", "c"]}').retry_ids == IDS


def test_json_that_breaks_off_with_the_connection_may_have_held_a_list():
    assert classified(200, b' {"retry": ["a', delimited=False) == no_response(
        IDS, "answered 200 with JSON that breaks off"
    )


@pytest.mark.parametrize("body", [b"", b"ok", b"<html>", b'{"ok": true}'])
def test_other_answers_that_end_with_the_connection_are_done(body):
    assert classified(200, body, delimited=False).kind is ResultKind.DONE


def test_a_whole_list_that_ends_with_the_connection_counts():
    assert classified(200, b'{"retry": ["b"]}', delimited=False).retry_ids == ("b",)


def test_gone_switches_the_webhook_off():
    assert classified(410, retry_after="5") == DeliveryResult(
        kind=ResultKind.OFF, retry_ids=IDS, error="answered 410", status=410
    )


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("header", "wait_s"),
    [
        ("0", 0),
        ("7", 7),
        ("3600", 3_600),
        ("3601", 3_600),
        ("999999999999", 3_600),
        ("Sun, 06 Nov 1994 08:50:07 GMT", 30),
        ("Sunday, 06-Nov-94 08:50:07 GMT", 30),
        ("Sun Nov  6 08:50:07 1994", 30),
        ("Sun, 06 Nov 1994 09:50:07 +0100", 30),
        ("Sun, 06 Nov 1994 08:00:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 3_600),
    ],
)
def test_a_busy_receiver_is_left_alone_for_as_long_as_it_asks_up_to_a_bound(status, header, wait_s):
    result = classified(status, retry_after=header)
    assert result == DeliveryResult(
        kind=ResultKind.WAIT, retry_ids=IDS, wait_s=wait_s, error=f"answered {status}", status=status
    )


@pytest.mark.parametrize("header", ["", "soon", "-5", "1.5", "1e3", "٣", "9" * 13, "Sun, 99 Nov 1994 08:49:37 GMT"])
def test_a_busy_receiver_that_does_not_say_how_long_is_tried_again_by_the_schedule(header):
    assert classified(429, retry_after=header) == no_response(IDS, "answered 429", status=429)


@pytest.mark.parametrize(
    "status", [101, 300, 301, 302, 304, 307, 308, 400, 401, 404, 409, 422, 500, 502, 504, 599, 999]
)
def test_everything_else_is_tried_again(status):
    result = classified(status, b'{"retry": []}', retry_after="5")
    assert result == DeliveryResult(
        kind=ResultKind.RETRY, retry_ids=IDS, wait_s=0, error=f"answered {status}", status=status
    )


def test_a_failure_leaves_all_to_be_delivered():
    assert no_response(IDS, "no") == DeliveryResult(kind=ResultKind.RETRY, retry_ids=IDS, error="no")


@given(st.integers(100, 999), st.binary(), st.text(), st.booleans())
def test_whatever_is_answered_there_is_a_result_that_loses_none_without_a_yes(status, body, header, delimited):
    result = classified(status, body, retry_after=header, delimited=delimited)
    assert result.retry_ids == IDS or 200 <= status < 300
    assert 0 <= result.wait_s <= 3_600
    assert (result.error is None) == (result.kind is ResultKind.DONE)


@given(st.text())
def test_a_retry_after_is_seconds_or_a_date_or_nothing(text):
    found = retry_after_s(text, now=NOW)
    assert found is None or found >= 0
