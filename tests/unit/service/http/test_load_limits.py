"""Tests how much a process takes on."""

import pytest
from acker_protocol.errors import Overloaded
from acker_service.http.load_limits import Capacity


def test_places_are_taken_until_there_are_none():
    places = Capacity(2, what="requests")
    places.acquire()
    places.acquire()
    with pytest.raises(Overloaded, match="2 requests") as refused:
        places.acquire()
    assert refused.value.retryable


def test_a_refusal_takes_nothing():
    places = Capacity(10, what="bytes")
    places.acquire(8)
    with pytest.raises(Overloaded):
        places.acquire(3)
    places.acquire(2)
    assert places.used == 10


def test_a_place_given_back_can_be_taken_again():
    places = Capacity(1, what="requests")
    places.acquire()
    places.release()
    places.acquire()
    assert places.used == 1
