"""Tests how much a process takes on."""

import pytest
from acker_protocol.problems import Overloaded
from acker_service.domain.load import Places


def test_places_are_taken_until_there_are_none():
    places = Places(2, what="requests")
    places.take()
    places.take()
    with pytest.raises(Overloaded, match="2 requests") as refused:
        places.take()
    assert refused.value.retryable


def test_a_refusal_takes_nothing():
    places = Places(10, what="bytes")
    places.take(8)
    with pytest.raises(Overloaded):
        places.take(3)
    places.take(2)
    assert places.taken == 10


def test_a_place_given_back_can_be_taken_again():
    places = Places(1, what="requests")
    places.take()
    places.leave()
    places.take()
    assert places.taken == 1
