"""`acker bench`, as in docs/capacity.md and performance.md: it asks before it writes where keys are, and clears up."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from bench.servers import Member, one

ROOTS = 2_000
LAYOUT = "acker:{topologies}::layout"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Member]:
    with one(tmp_path) as member:
        yield member


def bench(server: Member, *options: str, answer: str = "") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "acker_service", "bench", "--url", server.url, "--roots", str(ROOTS), *options]
    return subprocess.run(command, input=answer, capture_output=True, text=True, check=False, timeout=110)


def keys(server: Member) -> list[str]:
    with redis.Redis(port=server.port, decode_responses=True) as client:
        return sorted(client.keys())


def test_it_prints_what_operations_cost_and_leaves_only_the_number_of_the_layout(server: Member) -> None:
    ended = bench(server)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    begins = (
        "round trip: ",
        "inits: ",
        "acks: ",
        "last acks: ",
        "a call to a shard: ",
        "a pending root: ",
        *["one server carries "] * 3,
    )
    assert [line.startswith(begin) for line, begin in zip(lines, begins, strict=False)] == [True] * len(begins)
    assert ["roots/s of" in line and " Redis (" in line for line in lines[len(begins) :]] == [True] * 4
    assert keys(server) == [LAYOUT]


def test_it_says_what_a_load_needs_and_shows_how_far_it_is(server: Member) -> None:
    ended = bench(server, "--roots-per-s", "10", "--edges", "1", "--pending-s", "5")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1].startswith(
        "10 roots/s of 1 edges, pending for 5 s (50 pending): 1 Redis (0.00 cores in all), "
        "ackers (shards) at least 1, 2 acker processes (one to spare), "
    )
    assert "Measuring" in ended.stderr


def test_a_load_in_small_batches_needs_more(server: Member) -> None:
    load = ("--roots-per-s", "50000", "--pending-s", "5")
    large, small = bench(server, *load), bench(server, "--yes", *load, "--batch", "10")
    assert small.stdout.rstrip().endswith("in batches of 10")
    assert processes(small.stdout) > 2 * processes(large.stdout)


def processes(printed: str) -> int:
    """Return how many processes of the acker the last line names."""
    [found] = re.findall(r"(\d+) acker processes", printed)[-1:]
    return int(found)


def test_it_asks_before_it_writes_to_a_redis_that_has_keys(server: Member) -> None:
    server.ask("SET", "mine", "1")
    ended = bench(server, answer="n\n")
    assert ended.returncode == 130
    assert "This Redis has 1 keys" in ended.stderr
    assert ended.stdout.strip() == ""
    with redis.Redis(port=server.port) as client:
        assert client.function_list() == []


def test_with_yes_it_does_not_ask_and_leaves_what_was_there(server: Member) -> None:
    server.ask("SET", "mine", "1")
    assert bench(server, "--yes").returncode == 0
    assert keys(server) == [LAYOUT, "mine"]


def test_a_redis_that_does_not_answer_is_an_error_of_one_line(server: Member) -> None:
    server.stop()
    ended = bench(server)
    assert ended.returncode == 1
    assert ended.stderr.startswith("acker: ")
    assert "Traceback" not in ended.stderr


def test_an_address_that_is_none_is_an_error_of_the_command_line() -> None:
    command = [sys.executable, "-m", "acker_service", "bench", "--url", "ftp://me:secret@nowhere"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 2
    assert ended.stderr.startswith("acker: --url: ")
    assert "secret" not in ended.stderr
