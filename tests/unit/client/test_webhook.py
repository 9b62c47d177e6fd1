"""Tests the application that receives completions."""

import asyncio
import json
import threading
from datetime import UTC, datetime

import httpx
import pytest
from acker_client import Completion, Outcome, UsageError, webhook_app
from acker_client.testing import Clock
from acker_protocol.signature import make_secret, signed_headers
from standardwebhooks import Webhook

from tests.support.receivers import served

pytestmark = pytest.mark.anyio

NOW = 1_790_000_000
SECRET, FORMER = make_secret(), make_secret()


def item(name: str, *, outcome: str = "acked", message_id: str | None = "42") -> dict:
    return {
        "id": name,
        "root_id": "00000000000000a1",
        "outcome": outcome,
        "message_id": message_id,
        "reason": None,
        "component": None,
        "complete_latency_ms": 12,
        "at_ms": 1_790_000_000_000,
    }


def completion(name: str, outcome: Outcome, *, message_id: str | None) -> Completion:
    return Completion(
        id=name,
        root_id="00000000000000a1",
        outcome=outcome,
        message_id=message_id,
        reason=None,
        component=None,
        complete_latency=0.012,
        at=1_790_000_000.0,
    )


def batch(*items: dict) -> bytes:
    data = {"topology": "t", "spout_task": "s", "completions": items}
    return json.dumps({"type": "completion.batch", "timestamp": "2026-09-21T14:13:20Z", "data": data}).encode()


async def post(app, body: bytes, *, secret: str = SECRET, at: int = NOW, **headers: str) -> httpx.Response:
    signed = signed_headers([secret], message="msg_1", timestamp=at, body=body)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://hook") as client:
        return await client.post("/any/where", content=body, headers=signed | headers)


def app_of(handler=None, **options):
    return webhook_app(SECRET, handler, clock=Clock(now=NOW), **options)


class Handler:
    """Keeps what it is told, and raises for some."""

    def __init__(self, *refused: str) -> None:
        self.told: list[Completion] = []
        self.refused = refused

    def __call__(self, done: Completion) -> None:
        self.told.append(done)
        if done.id in self.refused:
            raise RuntimeError("not now")


async def test_each_completion_is_given_to_the_handler_in_order():
    handler = Handler()
    answer = await post(app_of(handler), batch(item("a"), item("b", outcome="timed_out", message_id=None)))
    assert (answer.status_code, answer.json()) == (200, {"retry": []})
    assert handler.told == [
        completion("a", Outcome.ACKED, message_id="42"),
        completion("b", Outcome.TIMED_OUT, message_id=None),
    ]


async def test_those_whose_handler_raised_are_asked_for_again(caplog):
    handler = Handler("b")
    answer = await post(app_of(handler), batch(item("a"), item("b"), item("c")))
    assert (answer.status_code, answer.json()) == (200, {"retry": ["b"]})
    assert [done.id for done in handler.told] == ["a", "b", "c"]
    assert "not now" in caplog.text
    assert "message id '42'" in caplog.text


async def test_a_coroutine_function_is_awaited_in_the_loop_and_another_runs_in_a_thread():
    threads = []

    async def awaited(done: Completion) -> None:
        await asyncio.sleep(0)
        threads.append(threading.current_thread())

    def called(done: Completion) -> None:
        threads.append(threading.current_thread())

    for handler in (awaited, called):
        await post(app_of(handler), batch(item("a")))
    assert threads[0] is threading.current_thread()
    assert threads[1] is not threading.current_thread()


async def test_what_a_handler_in_a_thread_leaves_to_await_is_awaited():
    awaited = []

    async def later(done: Completion) -> None:
        awaited.append(done.id)

    def called(done: Completion):
        return later(done)

    await post(app_of(called), batch(item("a")))
    assert awaited == ["a"]


async def test_a_callable_object_may_be_awaited_too():
    class Awaited(Handler):
        async def __call__(self, done: Completion) -> None:
            self.thread = threading.current_thread()
            super().__call__(done)

    handler = Awaited("a")
    answer = await post(app_of(handler), batch(item("a"), item("b")))
    assert answer.json() == {"retry": ["a"]}
    assert handler.thread is threading.current_thread()


async def test_storms_handlers_get_the_message_id():
    acked, failed = [], []
    app = app_of(on_ack=acked.append, on_fail=failed.append)
    items = [item("a", message_id="1"), item("b", outcome="failed", message_id="2"), item("c", message_id=None)]
    assert (await post(app, batch(*items))).json() == {"retry": []}
    assert (acked, failed) == (["1"], ["2"])


async def test_storms_handlers_may_be_coroutine_functions():
    failed = []

    async def on_fail(message_id: str) -> None:
        failed.append(message_id)
        raise RuntimeError

    answer = await post(app_of(on_fail=on_fail), batch(item("a"), item("b", outcome="failed", message_id="2")))
    assert (answer.json(), failed) == ({"retry": ["b"]}, ["2"])


async def test_those_that_had_no_turn_in_time_are_asked_for_again_unhandled():
    handler = Handler()
    answer = await post(app_of(handler, timeout=0), batch(item("a"), item("b")))
    assert (answer.json(), handler.told) == ({"retry": ["a", "b"]}, [])


async def test_any_of_several_secrets_is_good():
    app = webhook_app([SECRET, FORMER], Handler(), clock=Clock(now=NOW))
    assert [(await post(app, batch(), secret=secret)).status_code for secret in (SECRET, FORMER)] == [200, 200]


async def test_what_the_reference_library_signs_is_received():
    body = batch(item("a"))
    signature = Webhook(SECRET).sign("msg_1", datetime.fromtimestamp(NOW, tz=UTC), body.decode())
    handler = Handler()
    assert (await post(app_of(handler), body, secret=FORMER, **{"webhook-signature": signature})).is_success
    assert len(handler.told) == 1


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"secret": FORMER}, "none that fits"),
        ({"webhook-signature": ""}, "are needed"),
        ({"webhook-id": "msg_2"}, "none that fits"),
        ({"at": NOW - 301}, "more than 300 s from now"),
        ({"at": NOW + 301}, "more than 300 s from now"),
    ],
)
async def test_a_request_that_is_not_well_signed_is_refused_and_no_handler_called(changed, said):
    handler = Handler()
    answer = await post(app_of(handler), batch(item("a")), **changed)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "unauthorized"
    assert said in answer.json()["detail"]
    assert handler.told == []


async def test_the_tolerance_is_a_choice():
    app = app_of(Handler(), tolerance=400)
    assert (await post(app, batch(), at=NOW - 400)).is_success


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff",
        b"null",
        b"[]",
        b"{}",
        b'{"type": "other"}',
        b'{"type": "completion.batch"}',
        b'{"type": "completion.batch", "data": null}',
        b'{"type": "completion.batch", "data": {"completions": null}}',
        b'{"type": "completion.batch", "data": {"completions": [7]}}',
        b'{"type": "completion.batch", "data": {"completions": [{}]}}',
        batch(item("a", outcome="else")),
        b'{"type":' + b"[" * 200_000,
    ],
    ids=range(14),
)
async def test_a_signed_body_without_completions_is_refused(body):
    answer = await post(app_of(Handler()), body)
    assert (answer.status_code, answer.json()["code"], answer.json()["status"]) == (400, "invalid", 400)


async def test_a_body_beyond_the_bound_is_refused():
    body = batch(item("a"))
    assert (await post(app_of(Handler(), max_body_bytes=len(body)), body)).is_success
    answer = await post(app_of(Handler(), max_body_bytes=len(body) - 1), body)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


async def asked(app, *, body: bytes = b"x" * 100, **changed: str | None) -> tuple[int, int]:
    """Send a body that never ends: how many parts of it were read, and the status of the answer."""
    read, sent = [], []
    headers = signed_headers([SECRET], message="msg_1", timestamp=NOW, body=b"another") | changed

    async def receive():
        read.append(1)
        return {"type": "http.request", "body": body, "more_body": True}

    async def send(message):
        sent.append(message)

    raw = [(name.encode(), value.encode()) for name, value in headers.items() if value is not None]
    await app({"type": "http", "method": "POST", "headers": raw}, receive, send)
    return len(read), sent[0]["status"]


async def test_a_body_beyond_the_bound_is_not_read_to_its_end():
    assert await asked(app_of(Handler(), max_body_bytes=250)) == (3, 413)


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"webhook-signature": None}, 401),
        ({"webhook-timestamp": None}, 401),
        ({"webhook-id": None}, 401),
        ({"webhook-timestamp": "soon"}, 401),
        ({"webhook-timestamp": str(NOW - 301)}, 401),
        ({"webhook-signature": "v1,AAAA"}, 401),
        ({"webhook-signature": "v2," + 43 * "A" + "="}, 401),
        ({"webhook-signature": "v1a," + 43 * "A" + "= v1," + 44 * "A"}, 401),
        ({"content-length": "251"}, 413),
        ({"content-length": "9" * 5_000}, 413),
    ],
    ids=range(10),
)
async def test_what_its_headers_show_to_be_unsigned_or_too_long_is_not_read(changed, status):
    assert await asked(app_of(Handler(), max_body_bytes=250), **changed) == (0, status)


async def test_a_signature_is_found_among_those_of_other_versions_and_secrets():
    body = batch(item("a"))
    signed = signed_headers([FORMER, SECRET], message="msg_1", timestamp=NOW, body=body)["webhook-signature"]
    for signatures in (signed, f"v1a,x {signed}", f"{signed} v2,y"):
        assert (await post(app_of(Handler()), body, **{"webhook-signature": signatures})).is_success


async def test_as_many_completions_as_an_acker_sends_at_once_are_read_with_the_longest_texts():
    longest = {"message_id": "\x01" * 1_024, "reason": "\x02" * 1_024, "component": "c" * 128, "traceparent": "0" * 55}
    body = batch(*(item(f"{number:064}") | longest for number in range(500)))
    assert len(body) > 6_000_000
    assert (await post(app_of(handler := Handler()), body)).json() == {"retry": []}
    assert len(handler.told) == 500


async def test_other_methods_are_refused():
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app_of(Handler())), base_url="http://hook") as client:
        answer = await client.get("/")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


async def test_a_caller_that_is_gone_is_not_answered_and_no_handler_called():
    messages = [{"type": "http.request", "body": batch(item("a")), "more_body": True}, {"type": "http.disconnect"}]
    sent, handler = [], Handler()

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    signed = signed_headers([SECRET], message="msg_1", timestamp=NOW, body=batch(item("a")))
    raw = [(name.encode(), value.encode()) for name, value in signed.items()]
    await app_of(handler)({"type": "http", "method": "POST", "headers": raw}, receive, send)
    assert (sent, handler.told) == ([], [])


async def test_a_websocket_is_closed():
    sent = []

    async def send(message):
        sent.append(message)

    await app_of(Handler())({"type": "websocket"}, None, send)
    assert sent == [{"type": "websocket.close"}]


def test_a_server_runs_it_alone():
    handler = Handler()
    body = batch(item("a"))
    with served(app_of(handler), lifespan="on") as port:
        signed = signed_headers([SECRET], message="msg_1", timestamp=NOW, body=body)
        answer = httpx.post(f"http://127.0.0.1:{port}/", content=body, headers=signed)
    assert answer.json() == {"retry": []}
    assert len(handler.told) == 1


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (([], print), {}, "needs the secret"),
        (("whsec_short", print), {}, "the secret of a webhook must be whsec_"),
        (([SECRET, "x"], print), {}, "the secret of a webhook must be whsec_"),
        ((SECRET,), {}, "either a handler, or on_ack and on_fail"),
        ((SECRET, print), {"on_ack": print}, "either a handler, or on_ack and on_fail"),
    ],
)
def test_it_is_not_made_without_a_secret_or_a_handler(arguments, options, said):
    with pytest.raises(UsageError, match=said):
        webhook_app(*arguments, **options)
