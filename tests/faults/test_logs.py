"""What the acker says when it starts, while its store is away, when it is back, and when it stops: a line each."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.support.caller import init
from tests.support.keys import keys_file
from tests.support.servers import AckerProcess, acker_serve, free_port, run_acker, valkey
from tests.support.waiting import eventually_true

AWAY = "does not answer: connection refused; start it, or check the address in ACKER_REDIS_URL (--redis-url)"


def lines(acker: AckerProcess, *words: str) -> list[str]:
    """The lines of its log that hold all these words."""
    return [line for line in acker.log.read_text().splitlines() if all(word in line for word in words)]


def test_at_the_start_one_line_says_what_runs_and_another_that_it_takes_requests(tmp_path: Path) -> None:
    keys = keys_file(tmp_path, "admin", "ack")
    data = tmp_path / "data"
    with acker_serve(tmp_path, "--data-dir", str(data), "--keys-file", str(keys)) as acker:
        version = run_acker("--version").stdout.strip()
        [start] = lines(acker, " starts; ")
        for part in (
            f"acker {version} starts",
            f"address: {acker.url}",
            "role: all",
            f"data folder {data}",
            "durability: relaxed",
            f"keys: 2 in {keys}",
        ):
            assert part in start
        assert len(lines(acker, f"takes requests at {acker.url}")) == 1


def test_it_says_why_it_stops_and_that_it_has_and_every_logger_is_its_own(tmp_path: Path) -> None:
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data"), "--log-format", "json") as acker:
        assert acker.terminate() == 0
        records = [json.loads(line) for line in acker.log.read_text().splitlines()]
    assert [record["message"].split(":")[0].split(";")[0] for record in records[-2:]] == ["stops at SIGTERM", "stopped"]
    assert {record["logger"].partition(".")[0] for record in records} == {"acker_service"}


def test_without_redis_at_the_start_one_line_says_what_to_do_and_none_has_the_password(tmp_path: Path) -> None:
    port = free_port()
    url = f"redis://user:hunter2@127.0.0.1:{port}/0?socket_timeout=3"
    with acker_serve(tmp_path, "--redis-url", url, until="/livez") as acker:
        eventually_true(lambda: acker.http.get("/readyz").status_code == 503)
        acker.http.post("/v1/topologies/default/init", json=body(1))
        assert acker.terminate() == 0
        assert len(lines(acker, f"the store at 127.0.0.1:{port}", AWAY)) == 1
        assert len(lines(acker, "WARNING")) == 1
        assert len(lines(acker, f"store: redis://127.0.0.1:{port}/0;")) == 1
        assert "hunter2" not in acker.log.read_text()


def test_redis_that_goes_and_returns_is_one_line_each_whatever_asks_meanwhile(tmp_path: Path) -> None:
    port = free_port()
    url = f"redis://127.0.0.1:{port}"
    with acker_serve(tmp_path, "--redis-url", url, until="/livez") as acker:
        with valkey(tmp_path / "store", port=port) as store:
            eventually_true(lambda: lines(acker, "answers again, after"))
            os.kill(store.pid, signal.SIGKILL)
            eventually_true(lambda: len(lines(acker, "does not answer: ")) == 2)
            for number in range(20):
                acker.http.post("/v1/topologies/default/init", json=body(number + 1))
        with valkey(tmp_path / "store", port=port):
            eventually_true(lambda: len(lines(acker, "answers again, after")) == 2)
            acker.wait_until_ready()
        said = ["away" if "does not answer" in line else "back" for line in lines(acker, "the store at")]
    assert said == ["away", "back"] * 2
    assert "Traceback" not in acker.log.read_text()


def test_a_login_that_redis_refuses_is_said_and_it_is_not_shown(tmp_path: Path) -> None:
    with valkey(tmp_path / "store", port=(port := free_port())):
        url = f"redis://nobody:hunter2@127.0.0.1:{port}"
        with acker_serve(tmp_path, "--redis-url", url, until="/livez") as acker:
            eventually_true(lambda: lines(acker, "refuses the login", "check user and password in ACKER_REDIS_URL"))
            assert "hunter2" not in acker.log.read_text()


def test_the_embedded_store_that_ends_is_said_once_and_that_it_runs_again(tmp_path: Path) -> None:
    port = free_port()
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data"), "--store-port", str(port)) as acker:
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if is_store_of(entry, acker)]
        assert len(pids) == 1
        os.kill(pids[0], signal.SIGKILL)
        eventually_true(lambda: lines(acker, "the embedded store runs again, after"))
        assert len(lines(acker, "the embedded store ended with -9", "server.log says why")) == 1
        eventually_true(lambda: acker.http.get("/readyz").status_code == 200)
        assert not lines(acker, "acker_service.redis.outages")


def is_store_of(process: Path, acker: AckerProcess) -> bool:
    """Whether a process, by its folder in /proc, is the store that this acker started."""
    try:
        status = (process / "status").read_text()
    except OSError:
        return False
    return f"PPid:\t{acker.process.pid}\n" in status and ("valkey" in status or "redis" in status)


def body(root: int) -> dict[str, object]:
    return {name: value for name, value in init(root, 9).items() if name != "op"}


@pytest.mark.parametrize("level", ["warning", "error"])
def test_at_a_higher_level_a_start_says_nothing(tmp_path: Path, level: str) -> None:
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data"), "--log-level", level) as acker:
        assert acker.log.read_text() == ""
