"""Time is Redis's own: a replica whose clock is wrong changes nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers import AckerProcess, acker_serve, free_port, valkey
from tests.support.waiting import eventually_true

T = "/v1/topologies/default"
AN_HOUR_AHEAD = """
import time
now, now_ns = time.time, time.time_ns
time.time, time.time_ns = lambda: now() + 3600, lambda: now_ns() + 3600 * 10**9
from acker_service.__main__ import main
main()
"""


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[tuple[AckerProcess, AckerProcess]]:
    """Two replicas on one store; the clock of the second is an hour ahead."""
    port = free_port()
    with valkey(tmp_path / "valkey", port=port):
        options = ("--redis-url", f"redis://127.0.0.1:{port}", "--tick-ms", "20")
        with (
            acker_serve(tmp_path, *options) as right,
            acker_serve(tmp_path, *options, program=("-c", AN_HOUR_AHEAD)) as ahead,
        ):
            yield right, ahead


def post(acker: AckerProcess, verb: str, key: str | None = None, **operation: object) -> str:
    headers = {} if key is None else {"Idempotency-Key": key}
    answer = acker.http.post(f"{T}/{verb}", json=operation, headers=headers)
    return str(answer.json()["state"]) + (" again" if "Idempotency-Replayed" in answer.headers else "")


def test_a_clock_an_hour_ahead_changes_nothing(replicas: tuple[AckerProcess, AckerProcess]) -> None:
    right, ahead = replicas
    long, short = f"{1:016x}", f"{2:016x}"
    edges = [f"{5:016x}", f"{6:016x}"]
    assert post(right, "init", root_id=long, spout_task="s", edges=edges) == "pending"
    assert post(ahead, "init", root_id=short, spout_task="s", edges=edges, message_timeout_ms=100) == "pending"
    deadline = right.http.get(f"{T}/roots/{long}").json()["deadline_at_ms"]

    def is_told() -> bool:
        return right.http.get(f"{T}/roots/{short}").json().get("outcome") == "timed_out"

    eventually_true(is_told)
    assert post(ahead, "ack", "key", root_id=long, edge_id=edges[0]) == "pending"
    assert post(right, "ack", "key", root_id=long, edge_id=edges[0]) == "pending again"
    assert post(ahead, "ack", "key", root_id=long, edge_id=edges[0]) == "pending again"
    seen = ahead.http.get(f"{T}/roots/{long}").json()
    assert (seen["state"], seen["deadline_at_ms"], seen["outstanding"]) == ("pending", deadline, 1)
    assert post(right, "ack", root_id=long, edge_id=edges[1]) == "acked"
    told = ahead.http.get(f"{T}/spouts/s/completions").json()["completions"]
    assert sorted(done["outcome"] for done in told) == ["acked", "timed_out"]
    assert all(0 <= done["complete_latency_ms"] < 60_000 for done in told)
