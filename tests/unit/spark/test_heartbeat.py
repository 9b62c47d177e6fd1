"""Tests the heartbeat, by a clock of the test's own: a wait is over when the test says so."""

import pytest
from acker_spark._batch.heartbeat import Heartbeat

from tests.unit.spark.waits import Waits


def test_it_beats_until_its_block_ends() -> None:
    beats: list[int] = []
    waits = Waits()
    with Heartbeat(lambda: beats.append(1), every=200, lasting=21_600, wait=waits):
        assert waits.begun() == waits.pass_one() == waits.pass_one() == 200
        assert len(beats) == 2
    assert len(beats) == 2


def test_one_that_fails_is_reported_and_the_next_one_comes(caplog: pytest.LogCaptureFixture) -> None:
    beats: list[int] = []

    def beat() -> None:
        beats.append(1)
        raise OSError("no route")

    waits = Waits()
    with Heartbeat(beat, every=200, lasting=21_600, wait=waits):
        assert waits.begun() == waits.pass_one() == waits.pass_one() == 200
    assert len(beats) == 2
    assert "could not be reset" in caplog.text


def test_a_block_that_hangs_is_let_go(caplog: pytest.LogCaptureFixture) -> None:
    beats: list[int] = []
    heartbeat = Heartbeat(lambda: beats.append(1), every=200, lasting=600, wait=lambda _over, _seconds: False)
    with heartbeat:
        heartbeat._thread.join(30)
        assert not heartbeat._thread.is_alive()
    assert len(beats) == 3
    assert "no longer reset" in caplog.text
