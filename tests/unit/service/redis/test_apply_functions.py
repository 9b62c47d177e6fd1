"""Tests how the replies of the functions are decoded."""

from acker_service.redis import apply_functions
from acker_service.redis.apply_functions import Applied, ApplyLimits


def test_a_request_that_the_shard_knew_comes_back_as_replayed() -> None:
    call = apply_functions.apply(b"", b"", ApplyLimits(), [])
    assert call.decode([b"", b"+pa"]).results == [Applied(codes="pa", replayed=False)]
    assert call.decode([b"", b"=pa"]).results == [Applied(codes="pa", replayed=True)]
