"""Tests the connections of clients of threads and of tasks, and where httpx sends instead."""

import asyncio
import base64
import gzip
import json
import logging
import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import trustme
import uvloop
from acker_client import (
    Acker,
    AsyncAcker,
    ClientClosed,
    InvalidResponse,
    RetriesExhausted,
    StoreFull,
    Unauthorized,
    _http,
)
from acker_client._core import requests
from acker_client._http_library import httpx
from acker_client.sync import _connections
from acker_client.testing import Clock

HEADERS = {"Acker-Anchors": "00 default 00000000000000aa-00000000000000bb"}
DOCUMENT = {"root_id": "00000000000000aa", "state": "pending"}
TAKEN = 200, {}, DOCUMENT
FULL = 503, {"Retry-After": "3"}, {"code": "store_full", "detail": "full", "status": 503, "title": "t", "type": "t"}
REFUSED = 401, {}, {"code": "unauthorized", "detail": "no key", "status": 401, "title": "t", "type": "t"}
INFO = {"idempotency_window_ms": 600_000, "dedupe_window_ms": 0, "retention_ms": 1}


class Server(ThreadingHTTPServer):
    """Answers what it is given, and notes what comes; a function as an answer is called with the handler."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.came: list[tuple[str, dict[str, str], bytes]] = []
        self.connections: list[Handler] = []
        self.answers: list = []
        self.secure = False

    @property
    def url(self) -> str:
        return f"{'https' if self.secure else 'http'}://localhost:{self.server_port}"

    def handle_error(self, request, address) -> None:
        pass


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def setup(self) -> None:
        super().setup()
        self.server.connections.append(self)

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.answer(200, {}, INFO)

    def do_PUT(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.came.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        answer = self.server.answers.pop(0) if self.server.answers else TAKEN
        answer(self) if callable(answer) else self.answer(*answer)

    def answer(self, status: int, headers: dict[str, str], document: dict[str, object]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def raw(answer: bytes, *, close: bool = False) -> Callable[[Handler], None]:
    """Answer with these bytes, and close the connection then if asked to."""

    def write(handler: Handler) -> None:
        handler.wfile.write(answer)
        handler.close_connection = close

    return write


def reset(handler: Handler) -> None:
    """Reset the connection, in the middle of a response."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True
    os.close(handler.connection.detach())  # its files would keep it open


class Threads:
    """A client of threads, with its results."""

    def __init__(self, url: str, **options) -> None:
        self.acker = Acker(url, **options)

    def run(self, call):
        return call

    def ack(self) -> list[str]:
        return self.run(self.acker.ack(self.acker.receive(HEADERS, component="count")))

    def request(self, request):
        return self.run(self.acker._driver.run(self.acker._session.send(request)))

    def close(self) -> None:
        self.run(self.acker.close())


class Tasks(Threads):
    """A client of tasks, each call in the same event loop."""

    new_loop = asyncio.new_event_loop

    def __init__(self, url: str, **options) -> None:
        self._runner = asyncio.Runner(loop_factory=type(self).new_loop)
        self.acker = AsyncAcker(url, **options)

    def run(self, call):
        return self._runner.run(call)

    def close(self) -> None:
        super().close()
        self._runner.close()


class UvloopTasks(Tasks):
    new_loop = uvloop.new_event_loop


KINDS = {"threads": Threads, "tasks": Tasks, "tasks of uvloop": UvloopTasks}


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(params=KINDS)
def kind(request) -> type[Threads]:
    return KINDS[request.param]


@pytest.fixture
def connect(server, kind):
    """Make clients of the server, on a clock of their own, which are closed at the end."""
    clients: list[Threads] = []

    def made(url: str = "", **options) -> Threads:
        clients.append(kind(url or server.url, **{"linger": 0, "clock": Clock(), **options}))
        return clients[-1]

    yield made
    for client in clients:
        client.close()


@pytest.mark.parametrize("path", ["", "/acker/"])
def test_the_service_gets_the_bytes_and_headers_of_a_request(connect, server, path):
    client = connect(server.url + path, api_key="key")
    assert client.ack() == ["pending"]
    client.request(requests.make_ephemeral("default", "a"))
    common = {
        "host": f"localhost:{server.server_port}",
        "accept": "*/*",
        "accept-encoding": "gzip, deflate",
        "connection": "keep-alive",
        "user-agent": f"python-{httpx.__name__}/{httpx.__version__}",
        "authorization": "Bearer key",
        "content-type": "application/json",
    }
    (address, headers, body), (other_address, other_headers, other_body) = server.came
    assert address == f"{path.rstrip('/')}/v1/topologies/default/ack"
    assert len(headers.pop("idempotency-key")) == 32
    assert headers == common | {"content-length": str(len(body))}
    assert json.loads(body)["root_id"] == "00000000000000aa"
    assert other_address == f"{path.rstrip('/')}/v1/topologies/default/spouts/a"
    assert other_headers == common | {"content-length": str(len(other_body))}
    assert json.loads(other_body) == {"ephemeral": True}


def test_a_key_that_no_header_may_hold_is_refused(kind, server):
    client = kind(server.url, api_key="key\r\nX-Other: 1", linger=0)
    with pytest.raises(httpx.LocalProtocolError):
        client.ack()
    client.close()
    assert server.came == []


def test_a_connection_is_used_again(connect, server):
    client = connect()
    for _ in range(3):
        client.ack()
    assert len(server.connections) == 1


def test_a_connection_that_was_idle_for_long_is_not_used_again(connect, server, monkeypatch):
    client = connect()
    client.ack()
    monkeypatch.setattr(_http, "IDLE_S", 0)
    client.ack()
    assert len(server.connections) == 2


@pytest.mark.parametrize("last_words", [b"", b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"])
def test_a_connection_that_the_service_has_closed_is_replaced_before_anything_is_sent(connect, server, last_words):
    client = connect(retry_timeout=0)
    client.ack()
    server.connections[0].wfile.write(last_words)
    server.connections[0].connection.shutdown(socket.SHUT_RDWR)
    assert client.ack() == ["pending"]
    assert (len(server.connections), len(server.came)) == (2, 2)


def test_a_connection_on_which_an_answer_to_nothing_has_come_is_not_used_again(server):
    """The loop may have read it already."""
    client = Tasks(server.url, linger=0, retry_timeout=0)
    client.ack()
    client.acker._driver._sender._idle[0].data_received(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    assert client.ack() == ["pending"]
    client.close()
    assert len(server.connections) == 2


CHUNK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"
FAULTS = {
    "it is closed": (raw(b"", close=True), httpx.RemoteProtocolError),
    "it is closed within the head": (raw(b"HTTP/1.1 200 OK\r\nContent-", close=True), httpx.RemoteProtocolError),
    "it is closed within the body": (
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", close=True),
        httpx.RemoteProtocolError,
    ),
    "it is closed within a chunk": (raw(CHUNK, close=True), httpx.RemoteProtocolError),
    "it is reset": (reset, httpx.ReadError),
    "it is no HTTP": (raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n", close=True), httpx.RemoteProtocolError),
}
"""How a connection fails, and by which error of httpx the client says so."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_request_whose_connection_fails_is_sent_again_with_its_key(connect, server, fault):
    server.answers += [FAULTS[fault][0]]
    assert connect().ack() == ["pending"]
    assert len(server.came) == 2
    assert server.came[0][1]["idempotency-key"] == server.came[1][1]["idempotency-key"]


@pytest.mark.parametrize("fault", FAULTS)
def test_what_failed_is_said_by_the_error_that_httpx_raises(connect, server, fault):
    answer, error = FAULTS[fault]
    server.answers += [answer]
    with pytest.raises(RetriesExhausted) as raised:
        connect(retry_timeout=0).ack()
    assert type(raised.value.__cause__) is error


BODY = json.dumps(DOCUMENT).encode()
FORMS = {
    "plain": b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY),
    "in chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY),
    "compressed": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s"
    % (len(gzip.compress(BODY)), gzip.compress(BODY)),
    "after hints": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"
    % (len(BODY), BODY),
    "without a reason": b"HTTP/1.1 200\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY),
    "with a folded header": b"HTTP/1.1 200 OK\r\nVia: a\r\n b\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY),
    "kept alive": b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY),
}
CLOSING_FORMS = {
    "until the end": b"HTTP/1.1 200 OK\r\n\r\n" + BODY,
    "as in HTTP/1.0": b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY),
    "as the last": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_response_of_any_form_is_read_and_its_connection_used_again(connect, server, form):
    server.answers += [raw(FORMS[form])]
    client = connect()
    assert client.ack() == client.ack() == ["pending"]
    assert (len(server.connections), len(server.came)) == (1, 2)


def test_a_response_of_the_common_form_is_read_without_h11(connect, server, monkeypatch):
    client = connect()
    monkeypatch.setattr(_http, "_read_by_h11", None)
    assert client.ack() == ["pending"]


@pytest.mark.parametrize("form", CLOSING_FORMS)
def test_a_response_that_ends_its_connection_is_read(connect, server, form):
    server.answers += [raw(CLOSING_FORMS[form], close=True)]
    client = connect()
    assert client.ack() == client.ack() == ["pending"]
    assert (len(server.connections), len(server.came)) == (2, 2)


@pytest.mark.parametrize("form", ["plain", "in chunks"])
def test_bytes_after_a_response_are_not_taken_for_the_next_one(connect, server, form):
    server.answers += [raw(FORMS[form] + FORMS["plain"].replace(b"pending", b"unknown"))]
    client = connect()
    assert client.ack() == client.ack() == ["pending"]
    assert len(server.connections) == 2


def test_a_length_that_nobody_can_mean_is_asked_again_for_and_raised(connect, server):
    server.answers += [raw(b"HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n" % (b"1" * 5_000), close=True)] * 2
    with pytest.raises(RetriesExhausted) as raised:
        connect(startup_timeout=0, retry_timeout=0).ack()
    assert isinstance(raised.value.__cause__, httpx.RemoteProtocolError)


def test_a_response_that_comes_in_pieces_is_read(connect, server):
    def slowly(handler: Handler) -> None:
        for byte in FORMS["plain"]:
            handler.wfile.write(bytes([byte]))
            handler.wfile.flush()

    server.answers += [slowly]
    assert connect().ack() == ["pending"]


def test_a_large_response_is_read(connect, server):
    padding = {**DOCUMENT, "padding": "x" * 3_000_000}
    server.answers += [(200, {}, padding)]
    client = connect()
    assert client.ack() == client.ack() == ["pending"]
    assert len(server.connections) == 1


def test_a_large_request_is_written(connect, server):
    body = os.urandom(5_000_000)
    connect().request(requests.Request(method="POST", path="/v1/large", body=body))
    assert server.came[0][2] == body


def test_a_service_that_answers_before_it_has_read_all_is_heard(connect, server):
    """It closes the connection then, and the rest cannot be written."""

    def refuse(handler: Handler) -> None:
        handler.connection.shutdown(socket.SHUT_RD)
        handler.answer(*REFUSED)
        handler.close_connection = True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Handler, "do_POST", refuse)
        with pytest.raises((Unauthorized, RetriesExhausted)):
            connect(retry_timeout=0).request(requests.Request(method="POST", path="/v1/a", body=bytes(20_000_000)))


def test_a_service_that_does_not_answer_in_time_is_asked_again(connect, server):
    done = threading.Event()
    server.answers += [lambda _: done.wait(60)]
    assert connect(request_timeout=0.2).ack() == ["pending"]
    done.set()
    assert server.came[0][1]["idempotency-key"] == server.came[1][1]["idempotency-key"]


def test_the_error_of_a_step_that_took_too_long_says_which_one_it_was(connect, server):
    done = threading.Event()
    large = requests.Request(method="POST", path="/v1/a", body=bytes(50_000_000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Handler, "do_POST", lambda _: done.wait(60))
        with pytest.raises(RetriesExhausted) as raised:
            connect(retry_timeout=0, request_timeout=0.2).request(large)
        done.set()
    assert type(raised.value.__cause__) is httpx.WriteTimeout


def test_a_long_poll_has_its_wait_on_top_of_the_timeout(connect, server):
    late = threading.Event()

    def answer(handler: Handler) -> None:
        late.wait(0.5)
        handler.answer(*TAKEN)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Handler, "do_GET", answer)
        poll = requests.Request(method="GET", path="/v1/poll", wait_s=60)
        assert connect(request_timeout=0.2, retry_timeout=0).request(poll).status == 200


def test_the_service_may_ask_to_wait(connect, server):
    server.answers += [FULL]
    client = connect()
    assert client.ack() == ["pending"]
    assert max(client.acker._session.config.clock.slept) == 3


@pytest.mark.parametrize(("answer", "error"), [(FULL, StoreFull), (REFUSED, Unauthorized)])
def test_an_error_document_is_raised(connect, server, answer, error):
    server.answers += [answer]
    with pytest.raises(error):
        connect(retry_timeout=0).ack()


@pytest.mark.parametrize("status", [301, 307, 308])
def test_a_redirect_is_not_followed(connect, server, status):
    server.answers += [(status, {"Location": f"{server.url}/elsewhere"}, {})]
    with pytest.raises(InvalidResponse, match=f"was answered {status} without a problem"):
        connect(retry_timeout=0).ack()
    assert len(server.came) == 1


def test_an_address_where_nobody_listens_is_named(connect):
    with pytest.raises(RetriesExhausted, match=r"no acker answers at http://127\.0\.0\.1:1: ") as raised:
        connect("http://127.0.0.1:1", startup_timeout=0).ack()
    assert isinstance(raised.value.__cause__, httpx.ConnectError)


def test_a_host_that_nobody_knows_is_named(connect, kind, monkeypatch):
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    if kind is UvloopTasks:
        pytest.skip("it has a resolver of its own")
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(RetriesExhausted, match=r"no acker answers at http://nobody\.invalid") as raised:
        connect("http://nobody.invalid", startup_timeout=0).ack()
    assert isinstance(raised.value.__cause__, httpx.ConnectError)


def test_a_service_that_listens_but_never_accepts_is_asked_again(connect):
    """Its queue of connections is full: a further one is not made in time."""
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for queued in (first, second):
            queued.settimeout(0)
            queued.connect_ex(full.getsockname())
        with pytest.raises(RetriesExhausted) as raised:
            connect(f"http://127.0.0.1:{full.getsockname()[1]}", startup_timeout=0, request_timeout=0.2).ack()
    assert isinstance(raised.value.__cause__, httpx.ConnectTimeout)


def test_a_closed_client_says_so(connect):
    client = connect()
    client.ack()
    client.run(client.acker.close())
    with pytest.raises(ClientClosed):
        client.ack()


def test_the_request_is_logged_in_httpxs_words(connect, server, caplog):
    server.answers += [TAKEN, raw(FORMS["in chunks"])]
    client = connect()
    with caplog.at_level(logging.INFO, httpx.__name__):
        client.ack()
        client.ack()
    said = [record.getMessage() for record in caplog.records if record.name == httpx.__name__]
    assert said == [f'HTTP Request: POST {server.url}/v1/topologies/default/ack "HTTP/1.1 200 OK"'] * 2


@pytest.mark.parametrize("name", ["HTTP_PROXY", "ALL_PROXY"])
def test_requests_go_through_a_proxy_of_the_environment(connect, server, monkeypatch, name):
    monkeypatch.setenv(name, f"http://127.0.0.1:{server.server_port}")
    connect("http://acker.example").ack()
    assert server.came[0][0] == "http://acker.example/v1/topologies/default/ack"  # a proxy is asked for the whole URL


def test_they_do_not_go_through_a_proxy_that_is_not_on_the_way(connect, server, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("ALL_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "localhost")
    connect().ack()
    assert server.came[0][0] == "/v1/topologies/default/ack"


@pytest.mark.parametrize("api_key", [None, "key"])
def test_a_login_in_the_url_is_sent(connect, server, api_key):
    connect(f"http://us%20er:p%C3%A4ss@localhost:{server.server_port}", api_key=api_key).ack()
    assert server.came[0][1]["authorization"] == "Basic " + base64.b64encode("us er:päss".encode()).decode()
    assert server.came[0][1]["host"] == f"localhost:{server.server_port}"


def test_requests_go_by_a_transport_of_the_program(kind):
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=DOCUMENT))
    client = kind("http://acker", transport=transport, linger=0)
    assert client.ack() == ["pending"]
    client.close()


@pytest.mark.parametrize(
    ("kind", "transport", "name"),
    [(Threads, httpx.HTTPTransport, "handle_request"), (Tasks, httpx.AsyncHTTPTransport, "handle_async_request")],
)
def test_with_a_transport_of_httpx_what_is_put_around_httpx_sees_the_requests(
    server, monkeypatch, kind, transport, name
):
    """As tracing and mocks do it: pytest-httpx replaces these functions of httpx's transports."""
    original, seen = getattr(transport, name), []

    def replaced(*args, **options):
        seen.append(name)
        return original(*args, **options)

    monkeypatch.setattr(transport, name, replaced)
    client = kind(server.url, linger=0, transport=transport())
    assert client.ack() == ["pending"]
    assert seen
    client.close()


def test_cookies_are_sent_back(connect, server):
    server.answers += [(200, {"Set-Cookie": "server=7; Path=/v1"}, DOCUMENT), (200, {"Set-Cookie": "b=8"}, DOCUMENT)]
    client = connect()
    for _ in range(3):
        client.ack()
    client.request(requests.Request(method="POST", path="/other", body=b"1"))
    assert [headers.get("cookie") for _, headers, _ in server.came] == [None, "server=7", "b=8; server=7", None]


def test_a_cookie_of_another_host_is_not_sent_back(connect, server):
    server.answers += [(200, {"Set-Cookie": "server=7; Domain=example.com"}, DOCUMENT)]
    client = connect()
    client.ack()
    client.ack()
    assert "cookie" not in server.came[1][1]


def test_threads_have_a_connection_each_while_they_send(server, monkeypatch):
    both = threading.Barrier(2)
    server.answers += [lambda handler: (both.wait(60), handler.answer(*TAKEN))] * 2
    client = Threads(server.url, linger=0)
    threads = [threading.Thread(target=client.ack) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client.close()
    assert len(server.connections) == 2


def test_tasks_have_a_connection_each_while_they_send(server):
    both = threading.Barrier(2)
    server.answers += [lambda handler: (both.wait(60), handler.answer(*TAKEN))] * 2

    async def ack_twice() -> None:
        async with AsyncAcker(server.url, linger=0) as acker, asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(acker.ack(acker.receive(HEADERS, component="count")))

    asyncio.run(ack_twice())
    assert len(server.connections) == 2


def test_no_more_connections_are_made_than_httpx_makes(connect, server, monkeypatch):
    """Who waits too long for one is told so."""
    monkeypatch.setattr(_http, "MAX_CONNECTIONS", 0)
    with pytest.raises(RetriesExhausted) as raised:
        connect(request_timeout=0.1, retry_timeout=0).ack()
    assert isinstance(raised.value.__cause__, httpx.PoolTimeout)
    assert server.came == []


def test_no_more_idle_connections_are_kept_than_httpx_keeps(connect, server, monkeypatch):
    monkeypatch.setattr(_http, "MAX_IDLE", 0)
    client = connect()
    client.ack()
    client.ack()
    assert len(server.connections) == 2


def test_a_cancelled_request_does_not_leave_its_response_to_the_next(server):
    asked, done = threading.Event(), threading.Event()
    late = FORMS["plain"].replace(b"pending", b"acked  ")
    server.answers += [lambda handler: (asked.set(), done.wait(60), raw(late)(handler))]

    async def cancel_and_ack() -> list[str]:
        async with AsyncAcker(server.url, linger=0) as acker:
            first = asyncio.create_task(acker.ack(acker.receive(HEADERS, component="count")))
            await asyncio.to_thread(asked.wait, 60)
            first.cancel()
            await asyncio.wait([first])
            done.set()
            return await acker.ack(acker.receive(HEADERS, component="count"))

    assert asyncio.run(cancel_and_ack()) == ["pending"]
    assert len(server.connections) == 2


@pytest.mark.parametrize("transport", [None, httpx.AsyncHTTPTransport()])
def test_a_request_that_waits_while_its_client_is_closed_ends(server, transport):
    """A task that polls does not outlive its client until the end of the poll."""
    asked, never = threading.Event(), threading.Event()
    server.answers += [lambda _: (asked.set(), never.wait(60))]

    async def close_meanwhile() -> None:
        acker = AsyncAcker(server.url, linger=0, transport=transport)
        waiting = asyncio.create_task(acker.ack(acker.receive(HEADERS, component="count")))
        await asyncio.to_thread(asked.wait, 60)
        await acker.close()
        with pytest.raises(RetriesExhausted, match="the acker is closed"):
            await waiting

    asyncio.run(asyncio.wait_for(close_meanwhile(), 5))
    never.set()


def test_an_interrupted_request_does_not_leave_its_response_to_the_next(server, monkeypatch):
    client = Threads(server.url, linger=0)
    client.ack()
    idle = client.acker._driver._sender._idle
    read = _http.HttpCodec.read

    def interrupted(self, request, data):
        raise KeyboardInterrupt

    monkeypatch.setattr(_http.HttpCodec, "read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        client.ack()
    assert not idle
    monkeypatch.setattr(_http.HttpCodec, "read", read)
    assert client.ack() == ["pending"]
    client.close()
    assert len(server.connections) == 2


def test_the_child_of_a_fork_makes_connections_of_its_own(server):
    client = Threads(server.url, linger=0)
    client.ack()
    parents = client.acker._driver._connected()
    read, write = os.pipe()
    if not (child := os.fork()):
        own = client.acker._driver._connected()
        os.write(write, b"the parent's" if own is parents or own._idle else b"its own")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 20) == b"its own"
    client.ack()
    assert len(server.connections) == 1
    client.close()


def test_an_event_loop_uses_no_connections_of_an_ended_one(server):
    acker = AsyncAcker(server.url, linger=0)

    async def ack() -> list[str]:
        return await acker.ack(acker.receive(HEADERS, component="count"))

    with asyncio.Runner() as other:
        with asyncio.Runner() as runner:
            assert runner.run(ack()) == ["pending"]
            assert other.run(ack()) == ["pending"]
            runner.run(asyncio.sleep(0))
        other.run(acker.close())


def test_tls_is_verified_as_httpx_does_it(connect, server, monkeypatch, tmp_path):
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.secure = True
    with pytest.raises(RetriesExhausted, match="certificate verify failed") as raised:
        connect(startup_timeout=0).ack()
    assert isinstance(raised.value.__cause__, httpx.ConnectError)
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    client = connect()
    assert client.ack() == client.ack() == ["pending"]
    with pytest.raises(RetriesExhausted, match="mismatch"):
        connect(f"https://127.0.0.1:{server.server_port}", startup_timeout=0).ack()


def test_a_response_is_read_although_the_request_could_not_be_written(server):
    """The service has answered before it has read all, and closed its side."""
    client = Threads(server.url)
    http, request = client.acker._driver._connected()._http, requests.Request(method="POST", path="/", body=b"1")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        theirs.shutdown(socket.SHUT_RD)
        with pytest.raises(BrokenPipeError):
            ours.send(b"1")
        connection, limit = _connections._Connection(ours), _connections._Limit(5.0, together=False)
        _connections._write(connection, http.write(request), limit)
        response, reusable = _connections._read(connection, http, request, limit)
    assert (response.status, reusable) == (413, False)
    client.close()
