"""Tests requests to real receivers, well behaved and not."""

import asyncio
import json
import logging
import ssl
import time
from dataclasses import replace

import pytest
import trustme
from acker_client import Completion, webhook_app
from acker_protocol.operations import CompletionRecord, Outcome
from acker_protocol.signature import make_secret
from acker_protocol.wire.completions import encode_completion
from acker_service.delivery.egress import EgressPolicy, read_networks
from acker_service.delivery.payload import make_message
from acker_service.delivery.response import DeliveryResult, ResultKind, no_response
from acker_service.delivery.webhook_client import RequestLimits, WebhookClient
from acker_service.host_names import read_hosts
from standardwebhooks import Webhook

from tests.support.documents import written
from tests.support.receivers import Broken, Dripping, Planned, Receiver, Silent, met, served
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

LOOPBACK = EgressPolicy(networks=read_networks("127.0.0.0/8, ::1"))
SECRET, FORMER = make_secret(), make_secret()
DONE = DeliveryResult(kind=ResultKind.DONE, status=200)


def completion(root_id: int, message_id: str | None = None) -> CompletionRecord:
    return CompletionRecord(
        root_id=root_id,
        spout_task="orders",
        outcome=Outcome.ACKED,
        message_id=message_id,
        reason=None,
        component=None,
        started_ms=1_790_000_000_000,
        at_ms=1_790_000_000_012,
    )


THREE = [completion(1, "ü"), completion(2), completion(3)]
MESSAGE = make_message(topology="shop", spout_task="orders", completions=written(*THREE))


@pytest.fixture(scope="module")
def tls() -> ssl.SSLContext:
    """Made once: it takes long."""
    return ssl.create_default_context()


@pytest.fixture
def make_client(tls):
    def made(policy=LOOPBACK, *, resolve=None, trusted=None, **limits) -> WebhookClient:
        return WebhookClient(egress_policy=policy, limits=RequestLimits(**limits), tls=trusted or tls, resolve=resolve)

    return made


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def url(receiver):
    with served(receiver) as port:
        yield f"http://127.0.0.1:{port}/hook?a=b%20c"


@pytest.fixture
async def post(make_client, url):
    """Post to the receiver."""
    async with make_client().endpoint(url) as endpoint:

        async def posted(made=MESSAGE) -> DeliveryResult:
            return await endpoint.post(made, secrets=[SECRET])

        yield posted


async def to_loopback(host: str, port: int) -> tuple[str, ...]:
    return ("127.0.0.1",)


async def test_a_receiver_gets_the_completions_signed(post, receiver, url):
    assert await post() == DONE
    [received] = receiver.received
    assert (received.method, received.target) == ("POST", "/hook?a=b%20c")
    assert received.headers["host"] in url
    assert received.headers["content-type"] == "application/json"
    assert received.headers["content-length"] == str(len(received.body))
    assert Webhook(SECRET).verify(received.body, received.headers) == {
        "type": "completion.batch",
        "timestamp": "2026-09-21T14:13:20.012Z",
        "data": {
            "topology": "shop",
            "spout_task": "orders",
            "completions": [encode_completion(it, incarnation="1") for it in THREE],
        },
    }


async def test_our_own_receiver_takes_them_and_asks_for_some_again(make_client):
    received = []

    def handle(done: Completion) -> None:
        received.append((done.id, done.message_id))
        if done.message_id is None:
            raise RuntimeError("needs a name")

    with served(webhook_app([FORMER, SECRET], handle)) as port:
        async with make_client().endpoint(f"http://127.0.0.1:{port}") as endpoint:
            result = await endpoint.post(MESSAGE, secrets=[SECRET])
            refused = await endpoint.post(MESSAGE, secrets=[make_secret()])
    assert received == list(zip(MESSAGE.ids, ["ü", None, None], strict=True))
    assert (result.kind, result.retry_ids) == (ResultKind.PART, MESSAGE.ids[1:])
    assert refused == no_response(MESSAGE.ids, "answered 401", status=401)


async def test_each_try_has_the_same_id_and_body_and_a_timestamp_of_its_own(make_client, receiver, url, tls):
    clock = iter([1_790_000_100.9, 0.0, 1_790_000_200.0, 0.0])
    client = WebhookClient(egress_policy=LOOPBACK, tls=tls, clock=lambda: next(clock))
    async with client.endpoint(url) as endpoint:
        for _ in range(2):
            await endpoint.post(MESSAGE, secrets=[SECRET])
    first, second = receiver.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == MESSAGE.message_id
    assert first.body == second.body == MESSAGE.body
    assert [one.headers["webhook-timestamp"] for one in (first, second)] == ["1790000100", "1790000200"]


async def test_while_secrets_change_either_verifies(make_client, receiver, url):
    async with make_client().endpoint(url) as endpoint:
        await endpoint.post(MESSAGE, secrets=[SECRET, FORMER])
    [received] = receiver.received
    for secret in (SECRET, FORMER):
        Webhook(secret).verify(received.body, received.headers)


async def test_connections_are_kept_for_the_posts_to_come(post, receiver):
    for _ in range(3):
        await post()
    assert len({received.client for received in receiver.received}) == 1


async def test_a_receiver_may_ask_for_some_again(post, receiver):
    receiver.plan.append(Planned(body=json.dumps({"retry": [MESSAGE.ids[2], "unknown", MESSAGE.ids[0]]}).encode()))
    result = await post()
    assert (result.kind, result.retry_ids) == (ResultKind.PART, (MESSAGE.ids[0], MESSAGE.ids[2]))


@pytest.mark.parametrize("body", [b"", b"thank you", b"{", b"\xff\x00", b'{"retry": "all"}', b"x" * 1_048_576])
async def test_a_whole_answer_without_a_list_is_done(post, receiver, body):
    receiver.plan.append(Planned(status=202, body=body))
    assert await post() == replace(DONE, status=202)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(post, receiver, url, status):
    receiver.plan.append(Planned(status=status, headers={"location": url}))
    assert await post() == no_response(MESSAGE.ids, f"answered {status}", status=status)
    assert len(receiver.received) == 1


async def test_gone_switches_the_webhook_off(post, receiver):
    receiver.plan.append(Planned(status=410))
    assert (await post()).kind is ResultKind.OFF


async def test_a_busy_receiver_says_for_how_long(post, receiver):
    receiver.plan += [Planned(status=status, headers={"Retry-After": "7"}) for status in (429, 503)]
    receiver.plan.append(Planned(status=429, headers={"Retry-After": "86400"}))
    for wait_s in (7, 7, 3_600):
        result = await post()
        assert (result.kind, result.wait_s, result.retry_ids) == (ResultKind.WAIT, wait_s, MESSAGE.ids)


async def test_an_error_of_the_receiver_is_tried_again_and_what_it_said_is_not_quoted(post, receiver):
    receiver.plan.append(Planned(status=500, body=b"password=1234"))
    assert await post() == no_response(MESSAGE.ids, "answered 500", status=500)
    assert await post() == DONE


HALF = b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"retry": ["'
BROKE_OFF = "the answer broke off, or was not HTTP"


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"", BROKE_OFF),
        (b"SSH-2.0-secret_service\r\n", BROKE_OFF),
        (b"HTTP/1.1 200", BROKE_OFF),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n", BROKE_OFF),
        (HALF, BROKE_OFF),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}   \r\n", BROKE_OFF),
        (b"HTTP/1.1 200 OK\r\nA: " + b"a" * 200_000 + b"\r\n\r\n", BROKE_OFF),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b'{"retry": ["', "answered 200 with JSON that breaks off"),
        (b"HTTP/1.0 200 OK\r\n\r\n" + b"a" * 1_048_577, "answered 200 with more than 1048576 bytes"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b",
            "answered 200 compressed, though that was not accepted",
        ),
    ],
)
async def test_half_an_answer_is_no_answer(make_client, said, error):
    async with met(Broken(said)) as port, make_client().endpoint(f"http://127.0.0.1:{port}") as endpoint:
        assert await endpoint.post(MESSAGE, secrets=[SECRET]) == no_response(MESSAGE.ids, error)


@pytest.mark.parametrize("said", [b"HTTP/1.0 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\nthank you"])
async def test_an_answer_that_ends_with_the_connection_is_done(make_client, said):
    async with met(Broken(said)) as port, make_client().endpoint(f"http://127.0.0.1:{port}") as endpoint:
        assert await endpoint.post(MESSAGE, secrets=[SECRET]) == DONE


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\n", HALF])
async def test_a_receiver_that_falls_silent_is_given_up(make_client, said):
    client = make_client(request_timeout_s=0.2)
    async with met(Silent(said)) as port, client.endpoint(f"http://127.0.0.1:{port}") as endpoint:
        result = await endpoint.post(MESSAGE, secrets=[SECRET])
    assert result == no_response(MESSAGE.ids, "no whole answer within 0.2 s")


async def test_a_receiver_that_never_comes_to_an_end_is_given_up(make_client):
    dripping = Dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n{")
    async with (
        met(dripping) as port,
        make_client(request_timeout_s=0.5).endpoint(f"http://127.0.0.1:{port}") as endpoint,
    ):
        result = await asyncio.wait_for(endpoint.post(MESSAGE, secrets=[SECRET]), 20)
    assert result == no_response(MESSAGE.ids, "no whole answer within 0.5 s")


async def test_a_receiver_that_was_given_up_often_still_gets_requests(make_client):
    broken = Silent(b"")
    async with (
        met(broken) as port,
        make_client(request_timeout_s=0.2).endpoint(f"http://127.0.0.1:{port}") as endpoint,
    ):
        for _ in range(2):
            results = await asyncio.gather(*(endpoint.post(MESSAGE, secrets=[SECRET]) for _ in range(8)))
            assert {result.kind for result in results} == {ResultKind.RETRY}
        broken.said = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        assert await endpoint.post(MESSAGE, secrets=[SECRET]) == DONE


async def test_one_that_hangs_holds_only_its_own_bound(make_client, url):
    broken, client = Silent(b""), make_client(max_in_flight=2)
    async with (
        met(broken) as port,
        client.endpoint(f"http://127.0.0.1:{port}") as hanging,
        client.endpoint(url) as other,
    ):
        held = [asyncio.create_task(hanging.post(MESSAGE, secrets=[SECRET])) for _ in range(10)]
        await eventually(lambda: asyncio.sleep(0, broken.connections == 2))
        results = await asyncio.gather(*(other.post(MESSAGE, secrets=[SECRET]) for _ in range(20)))
        assert results == [DONE] * 20
        assert broken.connections == 2
        for task in held:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)


async def test_waiting_for_a_slot_takes_nothing_of_the_time_for_a_post(make_client):
    silent, client = Silent(b""), make_client(max_in_flight=1, request_timeout_s=0.3)
    async with met(silent) as port, client.endpoint(f"http://127.0.0.1:{port}") as endpoint:
        results = await asyncio.gather(*(endpoint.post(MESSAGE, secrets=[SECRET]) for _ in range(3)))
        assert {result.error for result in results} == {"no whole answer within 0.3 s"}
        assert silent.connections == 3


async def test_nobody_listening_is_a_failure(make_client):
    async with met(Broken(b"")) as port:
        pass
    async with make_client().endpoint(f"http://127.0.0.1:{port}") as endpoint:
        result = await endpoint.post(MESSAGE, secrets=[SECRET])
    assert result.kind is ResultKind.RETRY
    assert result.error is not None
    assert result.error.startswith("no connection: ")


async def test_a_name_server_that_is_silent_is_a_failure(make_client):
    async def never(host, port):
        await asyncio.Event().wait()

    async with make_client(resolve=never, connect_timeout_s=0.05).endpoint("http://hooks.example/") as endpoint:
        result = await endpoint.post(MESSAGE, secrets=[SECRET])
    assert result == no_response(MESSAGE.ids, "no connection within 0.05 s")


async def test_a_receiver_on_the_own_machine_is_refused_where_it_is_not_allowed(make_client, receiver, url):
    async with make_client(EgressPolicy()).endpoint(url) as endpoint:
        result = await endpoint.post(MESSAGE, secrets=[SECRET])
    error = "127.0.0.1 is not a place for callbacks (loopback); the operator can allow it"
    assert result == no_response(MESSAGE.ids, error)
    assert receiver.received == []


async def test_a_name_is_posted_to_where_it_led_when_it_was_checked(make_client, receiver, url):
    """A receiver listens on both addresses; only one of them is allowed, and the name changes over to the other."""
    answers = iter([("127.0.0.1",), ("127.0.0.2",)])
    other, port = Receiver(), int(url.split(":")[2].split("/")[0])

    async def rebinding(host, port):
        return next(answers)

    policy = EgressPolicy(networks=read_networks("127.0.0.1"))
    with served(other, host="127.0.0.2", port=port):
        async with make_client(policy, resolve=rebinding).endpoint(f"http://rebinding.test:{port}/") as endpoint:
            assert await endpoint.post(MESSAGE, secrets=[SECRET]) == DONE
            # The kept connection leads where it was made to; a new one is checked anew.
            assert await endpoint.post(MESSAGE, secrets=[SECRET]) == DONE
        async with make_client(policy, resolve=rebinding).endpoint(f"http://rebinding.test:{port}/") as endpoint:
            assert "loopback" in ((await endpoint.post(MESSAGE, secrets=[SECRET])).error or "")
    assert (len(receiver.received), other.received) == (2, [])
    assert receiver.received[0].headers["host"] == f"rebinding.test:{port}"


async def test_a_host_allowed_by_name_may_be_anywhere(make_client, receiver, url):
    port = url.split(":")[2].split("/")[0]
    client = make_client(EgressPolicy(hosts=read_hosts(".test")), resolve=to_loopback)
    async with client.endpoint(f"http://hooks.test:{port}/") as endpoint:
        assert await endpoint.post(MESSAGE, secrets=[SECRET]) == DONE
    assert len(receiver.received) == 1


async def test_a_receiver_with_an_ipv6_address_is_told_it_in_brackets(make_client, receiver):
    with served(receiver, host="::1") as port:
        async with make_client().endpoint(f"http://[::1]:{port}/") as endpoint:
            assert await endpoint.post(MESSAGE, secrets=[SECRET]) == DONE
    assert receiver.received[0].headers["host"] == f"[::1]:{port}"


async def test_proxies_of_the_environment_are_not_used(monkeypatch, post, receiver):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert await post() == DONE
    assert len(receiver.received) == 1


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def secure(authority, tmp_path, receiver):
    """Serve TLS for one name, and yield the port."""
    cert = authority.issue_cert("hooks.test")
    cert.private_key_and_cert_chain_pem.write_to_path(tmp_path / "cert.pem")
    with served(receiver, ssl_certfile=tmp_path / "cert.pem") as port:
        yield port


@pytest.fixture
def trusted(authority) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.mark.parametrize("host", ["hooks.test", "hooks.test."])
async def test_the_certificate_is_checked_for_the_name_though_an_address_is_dialled(
    make_client, receiver, secure, trusted, host
):
    client = make_client(resolve=to_loopback, trusted=trusted)
    async with client.endpoint(f"https://{host}:{secure}/") as endpoint:
        assert await endpoint.post(MESSAGE, secrets=[SECRET]) == DONE
    assert receiver.received[0].headers["host"] == f"hooks.test:{secure}"


async def test_a_certificate_for_another_name_is_refused(make_client, receiver, secure, trusted):
    client = make_client(resolve=to_loopback, trusted=trusted)
    async with client.endpoint(f"https://other.test:{secure}/") as endpoint:
        result = await endpoint.post(MESSAGE, secrets=[SECRET])
    assert result.kind is ResultKind.RETRY
    assert "CERTIFICATE_VERIFY_FAILED" in (result.error or "")
    assert receiver.received == []


def test_the_authorities_of_certifi_are_trusted_where_the_system_has_none(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/dev/null")
    monkeypatch.setenv("SSL_CERT_DIR", "/nowhere")
    tls = WebhookClient(egress_policy=LOOPBACK)._tls
    assert tls.cert_store_stats()["x509_ca"] > 100
    assert (tls.verify_mode, tls.check_hostname) == (ssl.CERT_REQUIRED, True)


async def test_a_certificate_that_nobody_trusts_is_refused(make_client, receiver, secure):
    async with make_client(resolve=to_loopback).endpoint(f"https://hooks.test:{secure}/") as endpoint:
        result = await endpoint.post(MESSAGE, secrets=[SECRET])
    assert "CERTIFICATE_VERIFY_FAILED" in (result.error or "")
    assert receiver.received == []


async def test_the_receiver_is_asked_for_by_its_name_in_tls(make_client, authority, trusted):
    names = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("hooks.test").configure_cert(context)
    context.sni_callback = lambda _, name, __: names.append(name)
    client = make_client(resolve=to_loopback, trusted=trusted)
    said = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    async with (
        met(Broken(said), tls=context) as port,
        client.endpoint(f"https://hooks.test:{port}/") as endpoint,
    ):
        assert await endpoint.post(MESSAGE, secrets=[SECRET]) == DONE
    assert names == ["hooks.test"]


async def test_whatever_goes_wrong_is_a_result_and_is_logged(make_client, url, caplog):
    async with make_client().endpoint(url) as endpoint:
        with caplog.at_level(logging.ERROR):
            result = await endpoint.post(MESSAGE, secrets=["no secret"])
    assert result == no_response(MESSAGE.ids, "failed unexpectedly: ValueError")
    assert "failed unexpectedly" in caplog.text
    assert "a=b" not in caplog.text


async def test_a_cancelled_post_is_cancelled(make_client):
    broken = Silent(b"")
    async with met(broken) as port, make_client().endpoint(f"http://127.0.0.1:{port}") as endpoint:
        task = asyncio.create_task(endpoint.post(MESSAGE, secrets=[SECRET]))
        await eventually(lambda: asyncio.sleep(0, broken.heard))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_a_url_that_leads_nowhere_makes_no_endpoint(make_client):
    with pytest.raises(ValueError, match="http or https"):
        make_client().endpoint("ftp://hooks.example/")


def test_a_client_needs_no_more_than_what_is_allowed():
    client = WebhookClient(egress_policy=EgressPolicy())
    assert client.limits == RequestLimits()
    assert client.clock is time.time
