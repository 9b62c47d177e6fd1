"""Every answer names its request, by the caller's id or by one made here, and log lines of the request do."""

import asyncio
import io
import json
import logging
import re
from collections.abc import Iterator

import httpx
import pytest
from acker_protocol.errors import TooLarge
from acker_service.http.application import Application
from acker_service.http.origins import OriginCheck, OriginPolicy
from acker_service.http.problems import encode_refusal
from acker_service.http.request_id import identify, make_id
from acker_service.metrics.logs import start_logging
from acker_service.metrics.metrics import Metrics

from tests.support.connections import Held

pytestmark = pytest.mark.anyio

MADE = re.compile(rb"[0-9a-f]{16}")


@pytest.mark.parametrize("given", [b"r", b"checkout-1.000042", b"!~", b"x" * 128])
def test_an_id_that_is_valid_is_taken(given: bytes) -> None:
    assert identify([(b"host", b"acker"), (b"x-request-id", given), (b"x-request-id", b"another")]) == given


@pytest.mark.parametrize("given", [b"", b"x" * 129, b"two words", b"tab\t", b"\xc3\xbc", b"\x00", b"line\n"])
def test_an_id_that_is_not_valid_is_replaced(given: bytes) -> None:
    assert MADE.fullmatch(identify([(b"x-request-id", given)]))


def test_ids_that_are_made_differ() -> None:
    assert len({make_id() for _ in range(1_000)}) == 1_000
    assert all(MADE.fullmatch(identify([])) for _ in range(10))


def test_a_head_that_is_refused_has_an_id_in_its_answer() -> None:
    assert re.search(rb"\r\nx-request-id: [0-9a-f]{16}\r\n\r\n", encode_refusal(TooLarge("no")))


async def test_a_connection_writes_the_id_into_each_answer() -> None:
    held = Held()
    await held.feed(
        b"GET /a HTTP/1.1\r\nHost: acker\r\nX-Request-Id: mine\r\n\r\nGET /b HTTP/1.1\r\nHost: acker\r\n\r\n"
    )
    await held.answer_all(2)
    first, second = re.findall(rb"x-request-id: (.*?)\r\n", held.transport.written)
    assert first == b"mine"
    assert MADE.fullmatch(second)


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What the service's log gets, as lines of JSON."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    start_logging(level="info", style="json")
    [handler] = root.handlers
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(stream := io.StringIO())
    yield stream
    root.handlers = handlers
    root.setLevel(level)


async def test_lines_of_a_request_name_it_and_those_of_a_task_that_goes_on_do_not(written: io.StringIO) -> None:
    log, answered, tasks = logging.getLogger("acker_service.test"), asyncio.Event(), list[asyncio.Task[None]]()
    app = Application()
    app.state.keys = ()
    app.origins = OriginCheck(OriginPolicy(is_loopback=True), app.state, Metrics().http)

    async def go_on() -> None:
        await answered.wait()
        log.info("afterwards")

    @app.get("/")
    async def answer() -> None:
        log.info("within")
        tasks.append(asyncio.create_task(go_on()))

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://acker") as client:
        response = await client.get("/", headers={"X-Request-Id": "mine"})
    answered.set()
    await asyncio.gather(*tasks)
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    named = {line["message"]: line.get("request_id") for line in lines if line["logger"] == "acker_service.test"}
    assert response.headers["X-Request-Id"] == "mine"
    assert named == {"within": "mine", "afterwards": None}
