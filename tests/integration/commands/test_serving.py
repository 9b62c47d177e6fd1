"""`acker serve` as a process: how it begins, how it ends, what it says when it cannot."""

import asyncio
import contextlib
import gc
import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
import uvloop
from acker_protocol.errors import MEDIA_TYPE
from acker_service import VERSION
from acker_service.__main__ import cli
from acker_service.claims import bind
from acker_service.components import make_components
from acker_service.redis.embedded import EmbeddedServer
from acker_service.server import UvicornServer, opened
from acker_service.settings import Settings
from fastapi import FastAPI
from typer.testing import CliRunner

from bench.servers import one
from tests.support.caller import ack, fail, init, reset_timeout
from tests.support.servers import AckerProcess, acker_serve, free_port, is_in_use, run_acker, valkey
from tests.support.waiting import eventually_true

DEFAULT = "/v1/topologies/default"
COMPLETIONS = f"{DEFAULT}/spouts/orders/completions"
JSON = {"Content-Type": "application/json"}


def post(acker: AckerProcess, op: dict[str, Any], *, key: str | None = None) -> httpx.Response:
    document = {name: value for name, value in op.items() if name != "op"}
    headers = {} if key is None else {"Idempotency-Key": key}
    return acker.http.post(f"{DEFAULT}/{op['op']}", json=document, headers=headers)


@pytest.mark.anyio
async def test_what_the_start_makes_is_left_out_of_garbage_collection(valkey_url: str) -> None:
    gc.unfreeze()
    settings = Settings(redis_url=valkey_url)
    try:
        async with opened(make_components(valkey_url, settings), settings, asyncio.Event()):
            assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


@contextlib.contextmanager
def connected(acker: AckerProcess) -> Iterator[http.client.HTTPConnection]:
    """A connection that lets a test send now and read the answer later."""
    connection = http.client.HTTPConnection(acker.url.removeprefix("http://"), timeout=30)
    with contextlib.closing(connection):
        yield connection


def assert_arrived(acker: AckerProcess) -> None:
    """What was sent before has been taken up: the server answers what comes later."""
    assert acker.http.get("/livez").is_success


def stops_listening(acker: AckerProcess) -> bool:
    try:
        acker.http.get("/livez")
    except httpx.HTTPError:
        return True
    return False


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AckerProcess]:
    """An acker for tests that leave it running."""
    folder = tmp_path_factory.mktemp("running")
    with acker_serve(folder, "--data-dir", str(folder / "data")) as acker:
        yield acker


def test_told_to_stop_it_answers_who_waits_finishes_what_is_in_flight_and_leaves_no_store(tmp_path: Path) -> None:
    body = json.dumps({"ops": [init(2, 9), ack(2, 9)]}).encode()
    data = tmp_path / "data"
    with (
        acker_serve(tmp_path, "--data-dir", str(data)) as acker,
        connected(acker) as waiting,
        connected(acker) as sending,
    ):
        post(acker, init(1, 9))
        waiting.request("GET", f"{COMPLETIONS}?wait_ms=60000")
        begin_to_send(sending, body)
        assert_arrived(acker)
        assert is_in_use(data)
        acker.process.send_signal(signal.SIGTERM)
        assert answer_of(waiting)["completions"] == []
        eventually_true(lambda: stops_listening(acker))
        sending.send(body[10:])
        assert answer_of(sending)["results"] == ["pending", "acked"]
        assert acker.process.wait(60) == 0
        assert not is_in_use(data)


def begin_to_send(connection: http.client.HTTPConnection, body: bytes) -> None:
    """Send the head of a batch and the first ten bytes of its body."""
    connection.putrequest("POST", f"{DEFAULT}/batch")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body[:10])


def answer_of(connection: http.client.HTTPConnection) -> Any:
    answer = connection.getresponse()
    assert answer.status == 200
    return json.loads(answer.read())


def test_what_it_holds_survives_a_restart(tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path / "data"))
    with acker_serve(tmp_path, *data) as acker:
        assert acker.http.put("/v1/topologies/mine", json={"ackers": 2}).status_code == 201
        post(acker, init(4, 9, 8, message_id="42"))
        post(acker, ack(4, 9), key="k")
        post(acker, init(8))
        acker.process.send_signal(signal.SIGINT)
        assert acker.process.wait(60) == 0
    with acker_serve(tmp_path, *data) as acker:
        assert acker.http.get("/v1/topologies/mine").json()["ackers"] == 2
        repeated = post(acker, ack(4, 9), key="k")
        assert (repeated.json()["state"], repeated.headers.get("Idempotency-Replayed")) == ("pending", "true")
        assert post(acker, ack(4, 8)).json()["state"] == "acked"
        told = acker.http.get(COMPLETIONS).json()["completions"]
        assert [(done["root_id"][-1], done["message_id"]) for done in told] == [("8", None), ("4", "42")]


def test_a_second_acker_on_the_same_data_is_refused_and_the_first_serves_on(running: AckerProcess) -> None:
    data = running.log.parent / "data"
    second = run_acker("serve", "--port", str(free_port()), "--data-dir", str(data))
    assert second.returncode == 2
    assert re.fullmatch(r"acker: .* is in use by another acker; .* --data-dir \(ACKER_DATA_DIR\)\n", second.stderr)
    assert post(running, init(1)).json()["state"] == "acked"


def test_a_port_that_is_taken_is_told_and_no_store_is_left(running: AckerProcess, tmp_path: Path) -> None:
    port = running.url.rpartition(":")[2]
    second = run_acker("serve", "--port", port, "--data-dir", str(tmp_path / "data"))
    assert second.returncode == 2
    assert re.fullmatch(
        r"acker: .* address already in use; .* another port with --port \(ACKER_PORT\)\n", second.stderr
    )
    assert not (tmp_path / "data").exists()


def test_of_two_ackers_that_bind_an_address_at_once_the_one_that_listens_later_ends() -> None:
    [first] = bind("127.0.0.1", 0)
    port = first.getsockname()[1]
    [second] = bind("127.0.0.1", port)

    async def start() -> None:
        config = uvicorn.Config(FastAPI(), host="127.0.0.1", port=port, log_config=None)
        await UvicornServer(config, asyncio.Event(), address="here").serve([second])

    with first, second:
        first.listen()
        with pytest.raises(RuntimeError, match=r"already in use; .* with --port \(ACKER_PORT\)$"):
            uvloop.run(asyncio.wait_for(start(), 5))


def test_a_port_of_the_embedded_store_that_is_taken_is_told(running: AckerProcess, tmp_path: Path) -> None:
    port = running.url.rpartition(":")[2]
    options = ("--port", str(free_port()), "--data-dir", str(tmp_path / "data"), "--store-port", port)
    second = run_acker("serve", *options)
    assert (second.returncode, second.stderr.count("\n")) == (2, 1)
    assert "--store-port (ACKER_STORE_PORT)" in second.stderr
    assert not (tmp_path / "data" / "server.log").exists()


@pytest.mark.parametrize("host", ["192.0.2.7", "nowhere.invalid"])
def test_a_host_that_is_not_this_machine_is_told(tmp_path: Path, host: str) -> None:
    ended = run_acker("serve", "--host", host, "--open", "--port", "0", "--data-dir", str(tmp_path / "data"))
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "--host (ACKER_HOST)" in ended.stderr
    assert not (tmp_path / "data").exists()


def test_an_acker_that_is_killed_leaves_its_address_and_its_data_to_the_next(tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path / "data"))
    with acker_serve(tmp_path, *data) as acker:
        acker.kill()
        acker.start()
        acker.wait_until_ready()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["serve", "--tickms", "3"], "--tick-ms"),
        (["serve", "--port"], "--port"),
        (["serve", "now"], "acker serve --help"),
        (["srve"], "acker --help"),
        (["serve", "redis://user:hunter2@store"], "acker serve --help"),
        (["serve", "--redis-ur=redis://user:hunter2@store"], "--redis-url"),
        (["redis://user:hunter2@store"], "acker --help"),
    ],
)
def test_a_command_line_that_cannot_be_read_ends_it_with_2_and_a_line(arguments: list[str], says: str) -> None:
    ended = CliRunner().invoke(cli, arguments)
    assert (ended.exit_code, ended.stderr.count("\n")) == (2, 1)
    assert ended.stderr.startswith("acker: ")
    assert says in ended.stderr
    assert "hunter2" not in ended.stderr


def test_the_version_is_an_option_and_a_command() -> None:
    asked = [CliRunner().invoke(cli, arguments) for arguments in (["--version"], ["version"])]
    assert [(each.exit_code, each.stdout.splitlines()[0]) for each in asked] == [(0, VERSION)] * 2


def test_a_redis_that_is_no_address_is_told(tmp_path: Path) -> None:
    ended = run_acker("serve", "--redis-url", "nowhere")
    assert ended.returncode == 2
    assert "redis" in ended.stderr.lower()
    assert "Traceback" not in ended.stderr


def test_a_server_in_cluster_mode_under_the_address_of_a_single_one_is_refused(tmp_path: Path) -> None:
    with one(tmp_path, "--cluster-enabled", "yes") as server:
        ended = run_acker("serve", "--port", "0", "--redis-url", server.url)
    assert (ended.returncode, ended.stderr.count("Traceback")) == (2, 0)
    assert "Redis runs in cluster mode; begin its address in ACKER_REDIS_URL with redis+cluster://" in ended.stderr


@pytest.mark.parametrize("option", ["sockettimeout=3", "socket_timeout=soon", "protocol=9", "retry=3"])
def test_an_option_of_a_redis_that_cannot_be_used_is_an_error_before_anything_starts(option: str) -> None:
    ended = run_acker("serve", "--port", "0", "--redis-url", f"redis://user:hunter2@store?{option}")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert ended.stderr.startswith("acker: --redis-url (ACKER_REDIS_URL): redis-py cannot use the store's address: ")
    assert "hunter2" not in ended.stderr


WRONG = {
    "a tick below its least": (["--tick-ms", "1"], {}, "--tick-ms (ACKER_TICK_MS)"),
    "a port that is none": (["--port", "70000"], {}, "--port (ACKER_PORT)"),
    "an unknown log level": ([], {"ACKER_LOG_LEVEL": "loud"}, "--log-level (ACKER_LOG_LEVEL)"),
    "a batch over the contract's": ([], {"ACKER_MAX_BATCH": "10001"}, "--max-batch (ACKER_MAX_BATCH)"),
    "a host that others reach, without --open": (["--host", "0.0.0.0"], {}, "ACKER_OPEN"),
    "a name of others, without --open": ([], {"ACKER_HOST": "acker.example"}, "ACKER_OPEN"),
}


@pytest.mark.parametrize(("options", "environment", "says"), WRONG.values(), ids=WRONG.keys())
def test_wrong_settings_end_it_with_2_and_words(options: list[str], environment: dict[str, str], says: str) -> None:
    ended = CliRunner().invoke(cli, ["serve", *options], env=environment)
    assert ended.exit_code == 2
    assert says in ended.stderr


def test_said_to_be_open_it_listens_for_others_and_logs_in_json(tmp_path: Path) -> None:
    options = ("--data-dir", str(tmp_path / "data"), "--host", "0.0.0.0", "--open", "--log-format", "json")
    with acker_serve(tmp_path, *options) as acker:
        assert acker.http.get("/readyz").is_success
        assert all(json.loads(line)["level"] for line in acker.log.read_text().splitlines())


def asked_for_health(*options: str, **environment: str) -> tuple[int, str]:
    """Ask as the command line does, and return the exit code and what is printed."""
    asked = run_acker("health", *options, **environment)
    return asked.returncode, asked.stdout


def test_health_is_0_where_an_acker_is_ready(running: AckerProcess) -> None:
    ready = run_acker("health", "--acker", running.url)
    assert (ready.returncode, ready.stdout) == (0, "ready\n")
    port = running.url.rpartition(":")[2]
    assert asked_for_health("--live", ACKER_PORT=port) == (0, "alive\n")
    assert asked_for_health(ACKER_URL=running.url) == (0, "ready\n")
    elsewhere = f"http://127.0.0.1:{free_port()}"
    assert asked_for_health(ACKER_URL=elsewhere, ACKER_PORT=port)[0] == 1
    assert asked_for_health("--acker", "", ACKER_URL=elsewhere, ACKER_PORT=port) == (0, "ready\n")


def test_health_is_1_where_nobody_serves() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert asked_for_health("--acker", url) == asked_for_health("--acker", url, "--live") == (1, "")


def test_without_its_store_it_lives_is_not_ready_and_says_what_may_be_sent_again(tmp_path: Path) -> None:
    with valkey(tmp_path / "store") as store, acker_serve(tmp_path, "--redis-url", store.url) as acker:
        post(acker, init(1, 9))
        kill(store)
        eventually_true(lambda: acker.http.get("/readyz").status_code == 503)
        assert acker.http.get("/livez").status_code == 200
        assert asked_for_health("--acker", acker.url) == (1, "store unavailable\n")
        assert asked_for_health("--acker", acker.url, "--live") == (0, "alive\n")
        for op in (init(2, 9), ack(1, 9), fail(1), reset_timeout(1)):
            assert retryable(post(acker, op)) == (op["op"] != "ack")
            assert retryable(post(acker, op, key="k"))
        batches = [{"ops": [init(2, 9), fail(1)]}, {"ops": [init(2, 9), ack(2, 9)]}]
        answers = [acker.http.post(f"{DEFAULT}/batch", json=batch) for batch in batches]
        assert [retryable(answer) for answer in answers] == [True, False]
        assert retryable(acker.http.get(f"{COMPLETIONS}?wait_ms=1000"))
        assert retryable(acker.http.get(DEFAULT))
        assert retryable(acker.http.put(DEFAULT, json={}))


def test_a_store_that_comes_later_is_waited_for(tmp_path: Path) -> None:
    port = free_port()
    with acker_serve(tmp_path, "--redis-url", f"redis://127.0.0.1:{port}", until="/livez") as acker:
        assert acker.http.get("/readyz").status_code == 503
        assert retryable(post(acker, ack(1, 9))) is False
        with valkey(tmp_path / "store", port=port):
            acker.wait_until_ready()
            assert post(acker, init(1)).json()["state"] == "acked"
            assert acker.terminate() == 0


def retryable(answer: httpx.Response) -> bool:
    """The answer says that the store is away, and return whether the request may be sent again."""
    assert (answer.status_code, answer.headers["content-type"]) == (503, MEDIA_TYPE)
    assert int(answer.headers["Retry-After"]) >= 1
    problem = answer.json()
    assert problem["code"] == "store_unavailable"
    return bool(problem["retryable"])


def kill(store: EmbeddedServer) -> None:
    os.kill(store.pid, signal.SIGKILL)


@pytest.mark.parametrize("url", ["http://[::", "http://127.0.0.1:1", "http://127.0.0.1:1/"])
def test_health_says_in_a_line_that_no_acker_answers(url: str) -> None:
    asked = run_acker("health", "--acker", url)
    assert (asked.returncode, asked.stderr.count("\n")) == (1, 1)


def test_a_data_folder_that_cannot_be_used_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("a" * 300)):
        started = run_acker("serve", "--port", str(free_port()), "--data-dir", str(folder))
        assert started.returncode == 2
        assert started.stderr.startswith("acker: the data folder cannot be used")


def test_a_data_folder_may_have_any_name(tmp_path: Path) -> None:
    folder = tmp_path / 'we ird"\\\n刘备'
    with acker_serve(tmp_path, "--data-dir", str(folder)):
        assert (folder / "appendonlydir").is_dir()


def test_told_to_stop_while_it_starts_it_cleans_up_and_ends_well(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "acker_service", "serve", "--port", "0", "--data-dir", str(tmp_path / "data")]
    process = subprocess.Popen(command, env=os.environ | {"TMPDIR": str(tmp_path)}, stderr=subprocess.DEVNULL)
    while process.poll() is None and not list(tmp_path.glob("acker-*")):
        pass
    process.terminate()
    assert process.wait(60) == 0
    assert not list(tmp_path.glob("acker-*"))


@pytest.fixture
def split(tmp_path: Path) -> Iterator[tuple[AckerProcess, AckerProcess]]:
    """One store, a process that answers and one that works."""
    port = free_port()
    with (
        valkey(tmp_path / "store", port=port),
        acker_serve(tmp_path, "--redis-url", f"redis://127.0.0.1:{port}", "--role", "api") as api,
    ):
        assert api.http.get("/readyz").json() == {"status": "ready", "ticking": False}
        assert "acker_store_ticked 0.0" in api.http.get("/metrics").text
        post(api, init(1, 9, message_timeout_ms=100))
        with acker_serve(tmp_path, "--redis-url", f"redis://127.0.0.1:{port}", "--role", "worker") as worker:
            yield api, worker


def test_time_passes_where_there_is_a_worker_and_not_else(split: tuple[AckerProcess, AckerProcess]) -> None:
    api, worker = split
    eventually_true(lambda: api.http.get("/readyz").json() == {"status": "ready", "ticking": True})
    told = api.http.get(COMPLETIONS, params={"wait_ms": 10_000}).json()["completions"]
    assert [(done["root_id"], done["outcome"]) for done in told] == [("0000000000000001", "timed_out")]
    eventually_true(lambda: "acker_store_ticked 1.0" in api.http.get("/metrics").text)
    assert 'acker_visits_total{result="done",rounds="tick"}' in worker.http.get("/metrics").text
    assert "acker_visits_total{" not in api.http.get("/metrics").text


def test_a_worker_serves_health_and_metrics_only(split: tuple[AckerProcess, AckerProcess]) -> None:
    _, worker = split
    assert {worker.http.get(path).status_code for path in ("/livez", "/readyz", "/metrics")} == {200}
    for path in ("/v1/topologies", DEFAULT, COMPLETIONS, "/openapi.json"):
        assert worker.http.get(path).status_code == 404
    assert post(worker, init(2)).status_code == 404
