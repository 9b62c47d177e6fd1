"""`acker serve --processes 2`: one address, one set of metrics and limits; all start, come back and end together."""

import contextlib
import http.client
import json
import os
import re
import secrets
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.exposition import Exposition, read
from tests.support.keys import bearer, digest_of, keys_file
from tests.support.raw_http import RawHttp
from tests.support.servers import AckerProcess, acker_serve, is_in_use, run_acker, valkey
from tests.support.waiting import eventually_true

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.timeout(300),  # four processes start here, where others start one
]

TWO = ("--processes", "2")
DEFAULT = "/v1/topologies/default"
MAX_CONNECTIONS = 41
API = ("api-1", "api-2")
READY = re.compile(r"(api-\d|worker) \(pid (\d+)\) is ready")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keys_file(tmp_path_factory.mktemp("keys"), "admin")


@pytest.fixture(scope="module")
def acker(tmp_path_factory: pytest.TempPathFactory, keys: Path) -> Iterator[AckerProcess]:
    """An acker of two API processes; each test leaves both and the worker running."""
    folder = tmp_path_factory.mktemp("acker")
    options = (*TWO, "--keys-file", str(keys), "--max-connections", str(MAX_CONNECTIONS))
    with (
        valkey(folder / "store") as store,
        acker_serve(folder, "--redis-url", store.url, *options) as running,
    ):
        running.http.headers.update(bearer("admin"))
        yield running


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[AckerProcess]:
    """An acker of two API processes with a store of its own."""
    with acker_serve(tmp_path, *TWO, "--data-dir", str(tmp_path / "data"), "--shutdown-drain-s", "30") as running:
        yield running


def processes(acker: AckerProcess) -> dict[str, int]:
    """The ids of its processes by their names, as they were last said to be ready."""
    return {name: int(pid) for name, pid in READY.findall(acker.log.read_text())}


def lives(pid: int) -> bool:
    """Whether a process runs: one that has ended and nobody has waited for does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def connections(acker: AckerProcess, pid: int) -> int:
    """How many connections of the acker's address a process has."""
    port = int(acker.url.rpartition(":")[2])
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inodes = {row[9] for row in rows if row[3] == "01" and int(row[1].rpartition(":")[2], 16) == port}
    files = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            files.append(str(file.readlink()))
    return sum(f"socket:[{inode}]" in files for inode in inodes)


def connections_of_all(acker: AckerProcess) -> list[int]:
    return sorted(connections(acker, processes(acker)[name]) for name in API)


def wait_until_idle(acker: AckerProcess) -> None:
    """Wait until no connection is open, and the supervisor has heard of it."""
    eventually_true(lambda: connections_of_all(acker) == [0, 0])
    time.sleep(0.3)  # the reports of closed connections are on their way


def scrape(acker: AckerProcess) -> Exposition:
    """Read the metrics on a connection of its own, so that the next scrape asks the other process."""
    answer = acker.http.get("/metrics")
    assert answer.is_success, answer.text
    return read(answer.text)


@pytest.mark.parametrize("count", [32, 10])
def test_connections_are_shared_equally(acker: AckerProcess, count: int) -> None:
    wait_until_idle(acker)
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            assert stack.enter_context(RawHttp(acker.url)).get("/livez")[0] == 200
        assert connections_of_all(acker) == [count // 2, count // 2]
    wait_until_idle(acker)


def test_a_limit_holds_for_all_processes_together(acker: AckerProcess) -> None:
    wait_until_idle(acker)
    with contextlib.ExitStack() as stack:
        answers = [stack.enter_context(RawHttp(acker.url)).get("/v1/topologies")[0] for _ in range(MAX_CONNECTIONS + 3)]
    assert sorted(answers) == [401] * MAX_CONNECTIONS + [503] * 3
    wait_until_idle(acker)


def test_the_metrics_are_sums_whatever_process_answers(acker: AckerProcess) -> None:
    livez = {"route": "/livez", "method": "GET"}

    def of(metrics: Exposition) -> list[float | None]:
        return [
            metrics.value("acker_requests_total", **livez, status="200"),
            metrics.value("acker_request_seconds_count", **livez),
            metrics.value("acker_request_seconds_bucket", **livez, le="+Inf"),
        ]

    acker.http.get("/livez")
    before = of(scrape(acker))
    with RawHttp(acker.url) as one, RawHttp(acker.url) as other:
        for _ in range(3):
            one.get("/livez")
            other.get("/livez")
        held = scrape(acker).value("acker_connections")
    scrapes = [scrape(acker) for _ in range(4)]
    assert [of(metrics) for metrics in scrapes] == [[value + 6 for value in before if value is not None]] * 4
    assert held is not None
    assert held >= 2
    assert {metrics.value("acker_store_up") for metrics in scrapes} == {1}
    assert {metrics.value("acker_roots_pending", topology="default") for metrics in scrapes} == {0}
    assert all(metrics.value("acker_build_info", version=acker_version()) == 1 for metrics in scrapes)
    assert (scrapes[-1].value("acker_visits_total", rounds="tick", result="done") or 0) > 0, "the worker is not in it"


def acker_version() -> str:
    return run_acker("--version").stdout.strip()


def test_every_process_reads_the_keys_again(acker: AckerProcess, keys: Path) -> None:
    document = json.loads(keys.read_text())
    entry = {"name": "new", "sha256": digest_of("new").hex(), "scope": "admin", "topologies": "*"}
    keys.write_text(json.dumps({"keys": [*document["keys"], entry]}))

    def is_known_to_both() -> bool:
        answers = [acker.http.get("/v1/topologies", headers=bearer("new")) for _ in range(6)]
        return all(answer.is_success for answer in answers)

    eventually_true(is_known_to_both)


@dataclass
class Caller:
    """Acks one root after the other on a kept connection; ``faults`` are the requests without an answer."""

    port: int
    over: bool = False
    answered: int = 0
    faults: list[object] = field(default_factory=list)

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Content-Type": "application/json"} | bearer("admin")
        while not self.over:
            root = secrets.token_hex(8)
            body = json.dumps({"root_id": root, "spout_task": "orders", "edges": [secrets.token_hex(8)]})
            try:
                connection.request("POST", f"{DEFAULT}/init", body, headers)
                answer = connection.getresponse()
                content = answer.read()
            except (OSError, http.client.HTTPException) as error:
                self.faults.append(error)
                connection.close()
                continue
            assert answer.status in (200, 201), content
            self.answered += 1
        connection.close()


def wait_for_answers(callers: Sequence[Caller]) -> None:
    """Wait until each has got two more, of which it sent the second request after this call."""
    counts = [caller.answered for caller in callers]
    eventually_true(lambda: all(caller.answered > count + 1 for caller, count in zip(callers, counts, strict=True)))


@contextlib.contextmanager
def calling(acker: AckerProcess, count: int) -> Iterator[list[Caller]]:
    callers = [Caller(int(acker.url.rpartition(":")[2])) for _ in range(count)]
    threads = [threading.Thread(target=caller.run) for caller in callers]
    for thread in threads:
        thread.start()
    try:
        yield callers
    finally:
        for caller in callers:
            caller.over = True
        for thread in threads:
            thread.join()


def counters(metrics: Exposition) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """What may only rise, of what the processes count."""
    return {
        (sample, labels): value
        for sample in ("acker_requests_total", "acker_request_seconds_sum", "acker_operations_total",
                       "acker_store_calls_total", "acker_visits_total", "process_cpu_seconds_total")
        for labels, value in metrics.values(sample).items()
    }  # fmt: skip


def test_killed_processes_come_back_and_only_requests_of_theirs_fail(acker: AckerProcess) -> None:
    wait_until_idle(acker)
    before = processes(acker)
    with calling(acker, 6) as callers:
        eventually_true(lambda: all(caller.answered > 5 for caller in callers))
        seen = counters(scrape(acker))
        for name in ("api-1", "worker"):
            os.kill(before[name], signal.SIGKILL)
        for name in ("api-1", "worker"):  # until the supervisor knows, it may pass a connection to the one that died
            end = f"{name} (pid {before[name]}) was ended by SIGKILL; it is started again in 0.1 s"
            eventually_true(lambda end=end: end in acker.log.read_text())
        wait_for_answers(callers)
        failed = [len(caller.faults) for caller in callers]

        def are_back() -> bool:
            nonlocal seen
            now, seen_before = counters(scrape(acker)), seen
            assert [key for key, value in seen_before.items() if now.get(key, 0) < value] == []
            seen = now
            running = processes(acker)
            return running["api-1"] != before["api-1"] and running["worker"] != before["worker"]

        eventually_true(are_back, within=120)
        assert are_back()
        wait_for_answers(callers)
    assert failed.count(0) == 3, "those of the other process were not touched"
    assert [len(caller.faults) for caller in callers] == failed, "once the supervisor knows, no request fails"
    assert processes(acker)["api-2"] == before["api-2"]
    log = acker.log.read_text()
    assert "Traceback" not in log
    eventually_true(lambda: acker.http.get("/readyz").json() == {"status": "ready", "ticking": True})
    wait_until_idle(acker)
    with contextlib.ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(RawHttp(acker.url)).get("/livez")
        assert connections_of_all(acker) == [5, 5]


def test_signals_of_the_group_drain_once_and_a_second_one_ends_all(embedded: AckerProcess) -> None:
    running = processes(embedded)
    for pid in running.values():
        os.kill(pid, signal.SIGTERM)  # as a service manager signals the whole group
    embedded.process.send_signal(signal.SIGTERM)
    eventually_true(lambda: embedded.http.get("/readyz").status_code == 503)
    for _ in range(4):
        answer = embedded.http.get("/livez")
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
    assert all(lives(pid) for pid in running.values())
    embedded.process.send_signal(signal.SIGTERM)
    assert embedded.process.wait(25) == 0
    assert not any(lives(pid) for pid in running.values())
    log = embedded.log.read_text()
    assert "Traceback" not in log
    assert log.count("stops at SIGTERM: ") == 2
    assert log.rstrip().endswith("[supervisor] acker_service.processes.supervisor: stopped")


def test_nothing_is_left_of_an_acker_whose_supervisor_is_killed(embedded: AckerProcess, tmp_path: Path) -> None:
    running = processes(embedded)
    assert set(running) == {"api-1", "api-2", "worker"}
    assert is_in_use(tmp_path / "data")
    embedded.kill()
    eventually_true(lambda: not any(lives(pid) for pid in running.values()), within=5)
    eventually_true(lambda: not is_in_use(tmp_path / "data"))


def test_a_process_that_cannot_start_ends_the_start_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nif 'acker_service.processes.child' in ' '.join(sys.orig_argv):\n    os._exit(3)\n"
    )
    began = time.monotonic()
    ended = run_acker("serve", *TWO, "--port", "0", "--data-dir", str(tmp_path / "data"), PYTHONPATH=str(tmp_path))
    assert ended.returncode == 2
    [line] = [line for line in ended.stderr.splitlines() if line.startswith("acker: ")]
    assert re.fullmatch(r"acker: (api-[12]|worker) \(pid \d+\) ended with exit code 3 before it was ready", line)
    assert "Traceback" not in ended.stderr
    assert time.monotonic() - began < 90
    assert not is_in_use(tmp_path / "data")
