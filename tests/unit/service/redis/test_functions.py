"""Tests how the replies of the functions are decoded."""

from acker_service.redis import functions
from acker_service.redis.functions import Applied


def test_a_request_that_the_shard_knew_comes_back_as_replayed() -> None:
    call = functions.apply(b"", b"", [])
    assert call.decode([b"", b"+pa"]).results == [Applied(codes="pa", replayed=False)]
    assert call.decode([b"", b"=pa"]).results == [Applied(codes="pa", replayed=True)]
