"""Tests how the server fits its connections into the limit of open files."""

import resource
from pathlib import Path

import pytest
from acker_service.server import RESERVED_FILES, connections_within, wanted_file_limit

from tests.support.servers import acker_serve

INFINITY = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "wanted"),
    [
        pytest.param(1_024, 100_000, 5_000 + RESERVED_FILES, id="raised as far as needed"),
        pytest.param(1_024, INFINITY, 5_000 + RESERVED_FILES, id="raised where nothing forbids it"),
        pytest.param(1_024, 4_096, 4_096, id="raised as far as allowed"),
        pytest.param(50_000, 100_000, 50_000, id="never lowered"),
        pytest.param(INFINITY, INFINITY, INFINITY, id="left without a limit"),
    ],
)
def test_the_limit_is_raised_for_the_connections(soft, hard, wanted):
    assert wanted_file_limit(5_000, soft=soft, hard=hard) == wanted


@pytest.mark.parametrize(
    ("limit", "fit"), [(5_000 + RESERVED_FILES, 5_000), (1_024, 1_024 - RESERVED_FILES), (INFINITY, 5_000), (100, 1)]
)
def test_the_connections_are_held_to_what_the_limit_allows(limit, fit):
    assert connections_within(5_000, limit=limit) == fit


def test_a_process_says_when_it_may_have_fewer_connections_than_configured(tmp_path: Path, valkey_url: str):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == INFINITY or hard > 900_000:
        pytest.skip("this system sets no limit that could be met")
    with acker_serve(tmp_path, "--redis-url", valkey_url, "--max-connections", "1000000") as acker:
        assert f"only {hard - RESERVED_FILES} of 1000000 connections fit" in acker.log.read_text()
