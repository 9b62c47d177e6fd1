"""Tests where the client finds its acker."""

import httpx
import pytest
from acker_client import Acker, AsyncAcker, RetriesExhausted, UsageError
from acker_client.testing import MemoryAcker

from tests.support.servers import free_port


@pytest.mark.parametrize("kind", [Acker, AsyncAcker])
@pytest.mark.parametrize("url", ["", "acker:8700", "ftp://acker", "http://", "http://acker:port"])
def test_an_address_that_is_none_is_refused_at_once(kind, url):
    with pytest.raises(UsageError, match="address"):
        kind(url)


@pytest.mark.parametrize("url", ["http://acker.test/below", "http://acker.test/below/"])
def test_an_acker_may_live_below_a_path(url, service: MemoryAcker):
    with Acker(url, transport=service.transport(), linger=0) as acker, pytest.raises(Exception, match="nothing"):
        acker.ack(acker.receive({"Acker-Anchors": "00 default 00000000000000aa-00000000000000bb"}, component="c"))
    assert service.requests[0].url.path == "/below/v1/topologies/default/ack"


def test_what_answers_with_a_body_that_cannot_be_unpacked_is_no_acker():
    broken = httpx.MockTransport(lambda _: httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=Torn()))
    with (
        Acker("http://acker.test", transport=broken, linger=0, retry_timeout=0) as acker,
        pytest.raises(RetriesExhausted, match="decompress"),
    ):
        acker.ack(acker.receive({"Acker-Anchors": "00 default 00000000000000aa-00000000000000bb"}, component="c"))


def test_where_no_server_listens_the_address_is_named():
    port = free_port()
    nobody = Acker(f"http://127.0.0.1:{port}/below", linger=0, retry_timeout=0)
    with nobody as acker, pytest.raises(RetriesExhausted, match=rf"no acker answers at http://127\.0\.0\.1:{port}: "):
        acker.ack(acker.receive({"Acker-Anchors": "00 default 00000000000000aa-00000000000000bb"}, component="c"))


class Torn(httpx.SyncByteStream):
    def __iter__(self):
        yield b"no gzip"
