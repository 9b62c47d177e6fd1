"""Tests where the client finds its acker."""

import pytest
from acker_client import Acker, AsyncAcker, Misuse
from acker_client.testing import MemoryAcker


@pytest.mark.parametrize("kind", [Acker, AsyncAcker])
@pytest.mark.parametrize("url", ["", "acker:8700", "ftp://acker", "http://", "http://acker:port"])
def test_an_address_that_is_none_is_refused_at_once(kind, url):
    with pytest.raises(Misuse, match="address"):
        kind(url)


@pytest.mark.parametrize("url", ["http://acker.test/below", "http://acker.test/below/"])
def test_an_acker_may_live_below_a_path(url, service: MemoryAcker):
    with Acker(url, transport=service.transport(), linger_ms=0) as acker, pytest.raises(Exception, match="nothing"):
        acker.ack(acker.tuple({"Acker-Anchors": "00 default 00000000000000aa-00000000000000bb"}, component="c"))
    assert service.requests[0].url.path == "/below/v1/topologies/default/ack"
