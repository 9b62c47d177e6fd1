"""Tests that a client takes transports and clients of httpx and of httpx2, and uses httpx2 by itself."""

import subprocess
import sys
from functools import partial

import httpx
import pytest
from acker_client import Acker, AsyncAcker, ClientClosed, RetriesExhausted
from acker_client._http_library import errors, library_of
from acker_client.integrations.httpx import ainject_request, inject_request
from acker_client.propagate import verify
from acker_client.testing import lost_reply

httpx2 = pytest.importorskip("httpx2", reason="hidden by tests.support.without_httpx2")
LIBRARIES = pytest.mark.parametrize("library", [httpx, httpx2])
URL = "http://acker.test"
ANCHORS = {"Acker-Anchors": "00 default 00000000000000aa-00000000000000bb"}


class Duck:
    """A transport that is of neither library by its class."""


def test_the_library_is_that_of_a_class_or_of_one_above_it_and_else_the_maintained_one():
    for library in (httpx, httpx2):
        above = type("Retrying", (library.HTTPTransport,), {})
        given = [library.MockTransport(print), library.AsyncHTTPTransport(), library.Client(), above()]
        assert [library_of(each) for each in given] == [library] * 4
    assert [library_of(each) for each in (None, Duck(), print)] == [httpx2] * 3


def test_errors_are_those_of_both_libraries():
    assert errors("ConnectError", "ReadError") == (
        httpx.ConnectError,
        httpx.ReadError,
        httpx2.ConnectError,
        httpx2.ReadError,
    )


@pytest.mark.parametrize(
    ("hidden", "used"), [("", "httpx2"), ("httpx", "httpx2"), ("httpx2", "httpx")], ids=["none", "httpx", "httpx2"]
)
def test_a_program_without_one_of_the_libraries_uses_the_other(hidden, used):
    script = f"""
import sys
if "{hidden}": sys.modules["{hidden}"] = None
from acker_client import Acker, RetriesExhausted
try:
    with Acker("http://127.0.0.1:1", retry_timeout=0, linger=0) as acker:
        acker.ack(acker.receive({ANCHORS}, component="c"))
except RetriesExhausted as error:
    print(type(error.__cause__).__module__.partition(".")[0])
print(*(name for name in ("httpx", "httpx2") if sys.modules.get(name)))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == [used] * 2


def round_trip(acker: Acker) -> None:
    with acker.shared_spout("orders").emit(message_id="42") as root:
        headers = root.headers()
    acker.ack(acker.receive(headers, component="bill"))


async def async_round_trip(acker: AsyncAcker) -> None:
    async with acker.shared_spout("orders").emit(message_id="42") as root:
        headers = root.headers()
    await acker.ack(acker.receive(headers, component="bill"))


def passing(library, service):
    """A transport of this library around the one of the acker in memory."""

    class Passing(library.BaseTransport, library.AsyncBaseTransport):
        def handle_request(self, request):
            assert type(request) is library.Request
            return service.transport().handle_request(request)

        async def handle_async_request(self, request):
            assert type(request) is library.Request
            return await service.transport().handle_async_request(request)

    return Passing()


@LIBRARIES
def test_requests_go_by_a_transport_of_either_library(service, library):
    with Acker(URL, transport=passing(library, service), linger=0) as acker:
        round_trip(acker)
    assert service.completions("orders") == ["42"]
    assert {type(request) for request in service.requests} == {library.Request}


@pytest.mark.anyio
@LIBRARIES
async def test_requests_of_tasks_go_by_a_transport_of_either_library(service, library):
    async with AsyncAcker(URL, transport=passing(library, service), linger=0) as acker:
        await async_round_trip(acker)
    assert service.completions("orders") == ["42"]


@LIBRARIES
def test_requests_go_by_a_client_of_either_library_which_stays_open(service, library):
    seen = []
    hooks = {"request": [seen.append]}
    with library.Client(transport=service.transport(), event_hooks=hooks, headers={"X-Mine": "1"}) as http:
        acker = Acker(URL, api_key="key", transport=http, linger=0)
        round_trip(acker)
        acker.close()
        assert not http.is_closed
        with pytest.raises(ClientClosed):
            round_trip(acker)
    assert {request.headers["Authorization"] for request in seen} == {"Bearer key"}
    assert {request.headers["X-Mine"] for request in seen} == {"1"}
    assert {str(request.url)[: len(URL) + 4] for request in seen} == {f"{URL}/v1/"}
    assert service.completions("orders") == ["42"]


@pytest.mark.anyio
@LIBRARIES
async def test_requests_of_tasks_go_by_a_client_of_either_library_which_stays_open(service, library):
    async with library.AsyncClient(transport=service.transport()) as http:
        acker = AsyncAcker(URL, transport=http, linger=0)
        await async_round_trip(acker)
        await acker.close()
        assert not http.is_closed
        with pytest.raises(ClientClosed):
            await async_round_trip(acker)
    assert service.completions("orders") == ["42"]


@LIBRARIES
def test_a_client_of_the_program_that_is_closed_is_said_to_be(service, library):
    http = library.Client(transport=service.transport())
    acker = Acker(URL, transport=http, linger=0)
    http.close()
    with pytest.raises(ClientClosed):
        round_trip(acker)


@LIBRARIES
@pytest.mark.parametrize("wrapped", [lambda error: error, lost_reply], ids=["before", "after"])
def test_a_failure_of_either_library_is_retried(service, connect, library, wrapped):
    service.faults += [
        None,
        wrapped(library.ReadTimeout("lost")),
        library.Response(503, json={"code": "overloaded", "retryable": True}),
    ]
    round_trip(connect())
    assert service.completions("orders") == ["42"]


@LIBRARIES
def test_the_last_failure_of_either_library_is_the_cause(service, connect, library):
    service.faults += [None, *[library.ConnectError("refused")] * 50]
    with pytest.raises(RetriesExhausted) as raised:
        round_trip(connect(retry_timeout=0.1))
    assert isinstance(raised.value.__cause__, library.ConnectError)


@LIBRARIES
def test_what_cannot_be_sent_is_not_retried_whatever_library_says_so(service, connect, library):
    service.faults += [None, library.LocalProtocolError("no such header")]
    with pytest.raises(library.LocalProtocolError):
        round_trip(connect())


@LIBRARIES
def test_the_requests_of_a_client_that_anchors_are_no_children_of_the_current_tuple(service, library):
    hooks = {"request": [inject_request]}
    with (
        library.Client(transport=service.transport(), event_hooks=hooks) as http,
        Acker(URL, transport=http, linger=0) as acker,
    ):
        with acker.shared_spout("orders").emit(message_id="42") as root:
            headers = root.headers()
            acker.topologies.get("default")
        with acker.receive(headers, component="bill") as tup:
            tup.reset_timeout()
    assert not any("Acker-Anchors" in request.headers for request in service.requests)
    assert service.completions("orders") == ["42"]


SECRET = "32 random characters, from a file"


@LIBRARIES
def test_a_request_of_either_library_carries_anchors_through_redirects_signed_up_to_another_origin(acker, library):
    came, locations = [], ["/elsewhere", "http://other.test/"]

    def answer(request):
        came.append(dict(request.headers))
        return library.Response(307, headers={"Location": locations.pop(0)}) if locations else library.Response(200)

    hooks = {"request": [partial(inject_request, secret=SECRET)]}
    with (
        library.Client(transport=library.MockTransport(answer), event_hooks=hooks, follow_redirects=True) as http,
        acker.shared_spout("orders").emit(message_id="42"),
    ):
        http.post("http://billing.test/charges")
    [*own, other] = came
    assert len(own) == 2
    for headers in own:
        verify(headers, secret=SECRET)
    assert "acker-anchors-signature" not in other
    assert len({headers["acker-anchors"] for headers in came}) == 1


@pytest.mark.anyio
@LIBRARIES
async def test_a_request_of_a_task_of_either_library_carries_anchors(async_acker, library):
    came = []
    transport = library.MockTransport(lambda request: came.append(dict(request.headers)) or library.Response(200))
    async with (
        library.AsyncClient(transport=transport, event_hooks={"request": [ainject_request]}) as http,
        async_acker.shared_spout("orders").emit(message_id="42"),
    ):
        await http.post("http://billing.test/charges")
    assert "acker-anchors" in came[0]
