"""`acker serve` refuses a variable ACKER_… that it does not know, but for those that are somebody else's."""

import socket
from pathlib import Path

import pytest
from acker_service.__main__ import cli
from typer.testing import CliRunner

from tests.support.servers import acker_serve, free_port, run_acker

MEANT = {
    "ACKER_TICKMS": "ACKER_TICK_MS",
    "ACKER_REDISURL": "ACKER_REDIS_URL",
    "ACKER_MAX_INFLIGHT": "ACKER_MAX_IN_FLIGHT",
    "ACKER_KEY_FILE": "ACKER_KEYS_FILE",
    "ACKER_DURABILTY": "ACKER_DURABILITY",
    "acker_tickms": "ACKER_TICK_MS",
    "ACKER_URLS": "ACKER_URL",
}
"""Variables that are not known, and what each means."""

SOMEBODY_ELSES = ("ACKER_URL", "ACKER_API_KEY", "ACKER_TOPOLOGY", "ACKER_ANCHORS", "ACKER_CHILDREN")
"""Those of the client; a program that serves and emits has them too."""

SERVICE_LINKS = {
    "ACKER_SERVICE_HOST": "10.0.0.1",
    "ACKER_SERVICE_PORT": "8700",
    "ACKER_SERVICE_PORT_HTTP": "8700",
    "ACKER_PORT": "tcp://10.0.0.1:8700",
    "ACKER_PORT_8700_TCP": "tcp://10.0.0.1:8700",
    "ACKER_PORT_8700_TCP_PROTO": "tcp",
    "ACKER_PORT_8700_TCP_PORT": "8700",
    "ACKER_PORT_8700_TCP_ADDR": "10.0.0.1",
}
"""What Kubernetes tells every container of a namespace that has a service called acker."""

WRONG = ("serve", "--tick-ms", "1")


@pytest.mark.parametrize(("name", "meant"), MEANT.items())
def test_a_variable_that_is_not_known_ends_the_start_with_the_one_that_is_meant(name: str, meant: str) -> None:
    ended = CliRunner().invoke(cli, ["serve", "--store-port", "70000"], env={name: "1"})
    assert ended.exit_code == 2
    assert name.upper() in ended.stderr.upper()
    assert meant in ended.stderr.replace(name, "", 1)


def test_one_that_resembles_nothing_is_refused_too_and_its_value_is_not_shown() -> None:
    ended = CliRunner().invoke(cli, WRONG, env={"ACKER_ZZZ": "hunter2"})
    assert ended.exit_code == 2
    assert "ACKER_ZZZ" in ended.stderr
    assert "hunter2" not in ended.stderr


def test_the_program_itself_says_so_before_it_looks_at_anything_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = run_acker("serve", "--port", str(taken.getsockname()[1]), ACKER_TICKMS="100")
    assert ended.returncode == 2
    assert "ACKER_TICK_MS" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_all_that_is_wrong_is_listed_at_once() -> None:
    ended = CliRunner().invoke(cli, WRONG, env={"ACKER_TICKMS": "1", "ACKER_ZZZ": "1"})
    assert all(name in ended.stderr for name in ("--tick-ms (ACKER_TICK_MS)", "ACKER_TICKMS", "ACKER_ZZZ"))


def test_an_empty_one_is_refused_like_another() -> None:
    """An empty known one counts as left out; an unknown one is a mistake all the same."""
    assert "ACKER_ZZZ" in CliRunner().invoke(cli, WRONG, env={"ACKER_ZZZ": ""}).stderr


def test_those_of_the_client_are_passed_over_without_a_word(tmp_path: Path) -> None:
    environment = dict.fromkeys(SOMEBODY_ELSES, "x")
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data"), environment=environment) as acker:
        assert not any(name in acker.log.read_text() for name in SOMEBODY_ELSES)


def test_service_links_of_kubernetes_are_passed_over_with_a_warning(tmp_path: Path) -> None:
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data"), environment=SERVICE_LINKS) as acker:
        log = acker.log.read_text()
    assert "WARNING" in log.upper()
    assert "ACKER_SERVICE_HOST" in log
    assert "enableServiceLinks" in log


def test_a_port_of_ones_own_beside_service_links_is_read(tmp_path: Path) -> None:
    port = free_port()
    links = SERVICE_LINKS | {"ACKER_PORT": str(port), "ACKER_TICK_MS": "1"}
    ended = run_acker("serve", "--data-dir", str(tmp_path), **links)
    assert ended.returncode == 2
    assert "--tick-ms (ACKER_TICK_MS)" in ended.stderr
    assert "ACKER_PORT" not in ended.stderr.replace("ACKER_PORT_", "")


def test_health_reads_no_port_out_of_a_service_link() -> None:
    assert "http://127.0.0.1:8700: " in run_acker("health", **SERVICE_LINKS).stderr


@pytest.mark.parametrize("role", ["all", "api", "worker"])
def test_no_process_of_any_role_starts_anything_with_a_variable_that_is_not_known(tmp_path: Path, role: str) -> None:
    folder = tmp_path / "data"
    options = () if role == "all" else ("--redis-url", "redis://127.0.0.1:1")
    ended = run_acker("serve", "--role", role, "--data-dir", str(folder), *options, ACKER_TICKMS="100")
    assert (ended.returncode, ended.stderr) == (
        2,
        "acker: ACKER_TICKMS: no setting has this name; did you mean ACKER_TICK_MS?\n",
    )
    assert not folder.exists()


def test_links_of_another_service_are_passed_over_where_its_host_stands_beside_them(tmp_path: Path) -> None:
    links = {
        "ACKER_REDIS_SERVICE_HOST": "10.0.0.2",
        "ACKER_REDIS_SERVICE_PORT": "6379",
        "ACKER_REDIS_PORT": "tcp://10.0.0.2:6379",
        "ACKER_REDIS_PORT_6379_TCP_ADDR": "10.0.0.2",
    }
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data"), environment=links) as acker:
        log = acker.log.read_text()
    assert [line for line in log.splitlines() if "enableServiceLinks" in line and all(link in line for link in links)]
    alone = {name: value for name, value in links.items() if not name.endswith("_HOST")}
    ended = run_acker("serve", "--data-dir", str(tmp_path), **alone)
    assert (ended.returncode, all(name in ended.stderr for name in alone)) == (2, True)
