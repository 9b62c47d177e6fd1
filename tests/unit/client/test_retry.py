"""Tests how a request is tried until it is answered."""

import httpx
import pytest
from acker_client import Acker, InvalidResponse, RetriesExhausted, ServiceError, UsageError
from acker_client.testing import lost_reply
from acker_protocol.errors import InvalidRequest, Overloaded, StoreUnavailable, UnknownTopology

LOST = httpx.ReadTimeout("lost")
REFUSED = httpx.ConnectError("refused")
ONE = {"Acker-Anchors": "00 default 00000000000000aa-00000000000000bb"}


def ack_one(acker):
    return acker.ack(acker.receive(ONE, component="count"))


FAULTS = [
    REFUSED,
    lost_reply(LOST),
    StoreUnavailable("down"),
    Overloaded("busy"),
    httpx.Response(429, headers={"Retry-After": "3"}),
    httpx.Response(502, text="<html>bad gateway</html>"),
    httpx.Response(503, json={"code": "unheard_of", "retryable": True}),
]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_request_of_unknown_outcome_is_sent_again_as_the_same_bytes_with_the_same_key(acker, service, fault):
    service.faults += [fault]
    ack_one(acker)
    first, again = service.writes("ack")
    assert (again.content, again.headers["Idempotency-Key"]) == (first.content, first.headers["Idempotency-Key"])


def test_an_ack_whose_reply_was_lost_is_applied_once(acker, service):
    service.faults += [lost_reply(LOST), None, lost_reply(LOST)]
    ack_one(acker)
    assert len(service.writes("ack")) == 3
    assert len(service.applied) == 1


def test_every_request_has_a_key_of_its_own(acker, service):
    ack_one(acker)
    ack_one(acker)
    one, two = service.keys("ack")
    assert one != two


def test_the_waits_double_with_jitter_up_to_five_seconds(connect, service, time):
    time.jitter_value = 1.0
    service.faults += [REFUSED, None] + [REFUSED] * 9
    with connect() as acker:
        ack_one(acker)
    assert time.slept == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


def test_jitter_takes_up_to_half_of_a_wait(connect, service, time):
    service.faults += [REFUSED]
    time.jitter_value = 0.0
    with connect() as acker:
        ack_one(acker)
    assert time.slept == [0.025]


def test_retry_after_is_waited_for(acker, service, time):
    service.faults += [httpx.Response(429, headers={"Retry-After": "7"})]
    ack_one(acker)
    assert time.slept == [7.0]


def test_a_retry_after_that_is_no_number_is_passed_over(acker, service, time):
    service.faults += [httpx.Response(429, headers={"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"})]
    ack_one(acker)
    assert time.slept[0] <= 0.05


def test_after_retry_timeout_the_outcome_is_unknown_and_the_last_fault_is_the_cause(connect, service, time):
    service.faults += [REFUSED, None] + [REFUSED] * 100
    with connect(retry_timeout=20) as acker, pytest.raises(RetriesExhausted, match="ack is not known") as raised:
        ack_one(acker)
    assert raised.value.__cause__ is REFUSED
    assert 15.0 <= sum(time.slept) <= 20.0


def test_a_key_is_not_used_for_longer_than_half_of_the_services_window(connect, service, time):
    service.idempotency_window_ms = 10_000
    time.jitter_value = 1.0
    service.faults += [REFUSED, None] + [REFUSED] * 100
    with connect(retry_timeout=60) as acker, pytest.raises(RetriesExhausted):
        ack_one(acker)
    assert sum(time.slept) == pytest.approx(0.05 + 0.1 + 0.2 + 0.4 + 0.8 + 1.6)


def test_the_window_is_asked_once_and_only_when_a_write_has_to_be_sent_again(acker, service):
    ack_one(acker)
    assert [request.method for request in service.requests] == ["POST"]
    service.faults += [REFUSED, None, REFUSED]
    ack_one(acker)
    ack_one(acker)
    assert [request.method for request in service.requests] == ["POST", "POST", "GET", "POST", "POST", "POST"]


def test_a_write_is_not_sent_again_if_the_service_is_back_too_late(connect, service, time):
    service.idempotency_window_ms = 10_000
    time.jitter_value = 1.0
    service.faults += [REFUSED] * 9
    with connect(retry_timeout=60, startup_timeout=None) as acker, pytest.raises(RetriesExhausted):
        ack_one(acker)
    assert [request.method for request in service.requests].count("POST") == 1


@pytest.mark.parametrize("answer", [UnknownTopology("gone"), httpx.Response(200, json={})])
def test_a_write_is_not_sent_again_if_the_window_cannot_be_learnt(acker, service, answer):
    service.faults += [lost_reply(LOST), answer]
    with pytest.raises(RetriesExhausted) as raised:
        ack_one(acker)
    assert isinstance(raised.value.__cause__, UnknownTopology | InvalidResponse)
    assert len(service.writes("ack")) == 1


@pytest.mark.parametrize(
    "problem", [InvalidRequest("no"), UnknownTopology("no"), StoreUnavailable("no", retryable=False)]
)
def test_a_problem_that_trying_again_does_not_help_is_raised_as_it_is(acker, service, problem):
    service.faults += [problem]
    with pytest.raises(type(problem), match="no"):
        ack_one(acker)
    assert len(service.requests) == 1


def test_a_problem_of_an_unknown_code_is_still_a_problem(acker, service):
    service.faults += [httpx.Response(418, json={"code": "teapot", "detail": "short and stout"})]
    with pytest.raises(ServiceError, match="short and stout"):
        ack_one(acker)


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(302, headers={"Location": "/login"}),
        httpx.Response(404, text="<html>not here</html>"),
        httpx.Response(200, text="<html>welcome</html>"),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={"state": "unheard_of"}),
        httpx.Response(200, json={}),
    ],
)
def test_an_answer_that_is_not_of_the_contract_is_reported(acker, service, answer):
    service.faults += [answer]
    with pytest.raises(InvalidResponse):
        ack_one(acker)


def test_what_httpx_refuses_to_send_is_not_tried_again(acker, service):
    service.faults += [httpx.LocalProtocolError("illegal header value")]
    with pytest.raises(httpx.LocalProtocolError):
        ack_one(acker)
    assert len(service.requests) == 1


def test_the_api_key_goes_along_as_bearer_token(connect, service):
    with connect(api_key="secret") as acker:
        ack_one(acker)
    assert service.requests[0].headers["Authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    "options",
    [
        {"retry_timeout": -1},
        {"emit_timeout": -1},
        {"request_timeout": 0},
        {"linger": -1},
        {"batch_size": 0},
        {"batch_size": 20, "buffer_size": 10},
        {"on_full": "drop"},
    ],
)
def test_terms_that_cannot_be_are_refused(connect, options):
    with pytest.raises(UsageError):
        connect(**options)


def test_a_topology_must_have_a_name():
    with pytest.raises(UsageError):
        Acker("http://acker.test", topology="no name")
