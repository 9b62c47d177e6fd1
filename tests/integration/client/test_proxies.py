"""Proxies of the environment: one rule for all commands and for the client, and words that name them."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from acker_client import Acker, AckerError, AsyncAcker, RetriesExhausted, UsageError
from acker_client._cli.main import run

from examples.support.ports import free_port
from tests.support.forward_proxy import ForwardProxy, forward_proxy
from tests.support.servers import AckerProcess, acker_serve

HEADER = "00 default 00000000000000aa-00000000000000bb"
COMMANDS = {
    "health": ("health",),
    "health --live": ("health", "--live"),
    "emit": ("emit", "--message-id", "42"),
    "ack": ("ack", HEADER),
    "join": ("join", HEADER),
    "topology list": ("topology", "list"),
    "status": ("status",),
    "root list": ("root", "list", "default"),
    "top": ("top", "--count", "1"),
    "roundtrip": ("roundtrip", "default", "--rounds", "1"),
}
STILL_OPEN, UNKNOWN = 12, 13
"""What `acker join` ends with: its root has an ack at most."""

SOCKS = ("socks5://127.0.0.1:1080", "socks5h://127.0.0.1:1080")
UNUSABLE = (*SOCKS, "socks://127.0.0.1:1080", "socks4://127.0.0.1:1080", "ftp://127.0.0.1:21", "http://", "http://[::")
VARIABLES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")

Setenv = Callable[[str, str], None]


def tuple_of(acker: Acker) -> Any:
    return acker.receive({"Acker-Anchors": HEADER}, component="test")


@pytest.fixture(scope="module")
def acker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AckerProcess]:
    folder = tmp_path_factory.mktemp("acker")
    with acker_serve(folder, "--data-dir", str(folder / "data")) as acker:
        yield acker


@pytest.fixture
def proxy() -> Iterator[ForwardProxy]:
    with forward_proxy() as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def environment(acker: AckerProcess, monkeypatch: pytest.MonkeyPatch) -> Setenv:
    """No variable names a proxy but what a test sets."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith("ACKER_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ACKER_URL", acker.url)
    return monkeypatch.setenv


@pytest.fixture
def dead() -> str:
    """An address at which no proxy listens."""
    return f"127.0.0.1:{free_port()}"


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_command_goes_through_the_proxy(
    proxy: ForwardProxy, acker: AckerProcess, environment: Setenv, command: tuple[str, ...]
) -> None:
    environment("http_proxy", f"http://user:secret@{proxy.address}")
    assert run(command) in (0, STILL_OPEN, UNKNOWN)
    assert proxy.asked
    assert all(target.startswith(f"{acker.url}/") for target in proxy.asked)


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no client wait for an acker that will not come."""
    defaults = Acker.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "startup_timeout", 0.1)


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("variable", VARIABLES)
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_where_the_proxy_is_dead_a_line_names_it_and_its_variable(
    environment: Setenv, dead: str, capsys: pytest.CaptureFixture[str], command: tuple[str, ...], variable: str
) -> None:
    environment(variable, f"http://user:secret@{dead}")
    assert run(command) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert_named(said.err, variable, f"http://{dead}")
    assert "secret" not in said.err
    assert "Start one" not in said.err


@pytest.mark.parametrize("url", UNUSABLE)
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_proxy_of_a_kind_that_cannot_be_used_is_told_in_a_line(
    environment: Setenv, capsys: pytest.CaptureFixture[str], command: tuple[str, ...], url: str
) -> None:
    environment("ALL_PROXY", url)
    assert run(command) in (1, 2)
    assert_named(capsys.readouterr().err, "ALL_PROXY", url if "127" in url else "")


def test_a_bolt_is_not_started_behind_a_proxy_that_cannot_be_used(
    environment: Setenv, capsys: pytest.CaptureFixture[str]
) -> None:
    environment("ALL_PROXY", "socks://127.0.0.1:1080")
    environment("ACKER_ANCHORS", HEADER)
    assert run(["run", "--component", "c", "--", "echo", "started"]) == 125
    said = capsys.readouterr()
    assert said.out == ""
    assert_named(said.err, "ALL_PROXY", "socks://127.0.0.1:1080")


def assert_named(line: str, variable: str, address: str) -> None:
    assert line.startswith("acker: ")
    assert line.count("\n") == 1
    assert variable in line
    assert address in line
    assert "NO_PROXY" in line


@pytest.mark.parametrize("no_proxy", ["127.0.0.1", "*", "example.com, 127.0.0.1", "127.0.0.1:{port}"])
@pytest.mark.parametrize("command", [COMMANDS["health"], COMMANDS["emit"], COMMANDS["topology list"]])
def test_a_host_that_no_proxy_names_is_asked_without_one(
    acker: AckerProcess, environment: Setenv, dead: str, command: tuple[str, ...], no_proxy: str
) -> None:
    environment("http_proxy", f"http://{dead}")
    environment("NO_PROXY", no_proxy.format(port=acker.url.rpartition(":")[2]))
    assert run(command) == 0
    with Acker(acker.url) as client:
        assert client.topologies.get("default").name == "default"


@pytest.mark.parametrize("variable", ["https_proxy", "HTTPS_PROXY", "ftp_proxy", "NPM_CONFIG_PROXY"])
@pytest.mark.parametrize("command", [COMMANDS["health"], COMMANDS["emit"], COMMANDS["topology list"]])
def test_a_proxy_for_other_addresses_changes_nothing(
    acker: AckerProcess, environment: Setenv, dead: str, command: tuple[str, ...], variable: str
) -> None:
    environment(variable, f"socks://{dead}")
    assert run(command) == 0
    with Acker(acker.url, linger=0) as client:
        client.ack(tuple_of(client))


def test_small_letters_win_as_in_other_programs(proxy: ForwardProxy, environment: Setenv, dead: str) -> None:
    environment("HTTP_PROXY", f"http://{dead}")
    environment("http_proxy", proxy.address)
    assert run(COMMANDS["health"]) == run(COMMANDS["emit"]) == run(COMMANDS["topology list"]) == 0
    assert len(proxy.asked) >= 3


def test_a_client_goes_through_the_proxy(proxy: ForwardProxy, acker: AckerProcess, environment: Setenv) -> None:
    environment("ALL_PROXY", proxy.address)
    with Acker(acker.url, linger=0) as client:
        client.ack(tuple_of(client))
    assert f"{acker.url}/v1/topologies/default/ack" in proxy.asked


@pytest.mark.anyio
async def test_a_client_of_an_event_loop_goes_through_the_proxy(
    proxy: ForwardProxy, acker: AckerProcess, environment: Setenv
) -> None:
    environment("ALL_PROXY", proxy.address)
    async with AsyncAcker(acker.url) as client:
        assert (await client.topologies.get("default")).name == "default"
    assert f"{acker.url}/v1/topologies/default" in proxy.asked


def test_a_client_names_the_dead_proxy(acker: AckerProcess, environment: Setenv, dead: str) -> None:
    environment("http_proxy", f"user:secret@{dead}")
    with Acker(acker.url, linger=0, startup_timeout=0.1) as client, pytest.raises(RetriesExhausted) as raised:
        client.ack(tuple_of(client))
    assert f"{acker.url} through the proxy http://{dead} (http_proxy)" in str(raised.value)
    assert "secret" not in str(raised.value)
    assert "acker serve" not in str(raised.value)


@pytest.mark.anyio
async def test_a_client_of_an_event_loop_names_the_dead_proxy(
    acker: AckerProcess, environment: Setenv, dead: str
) -> None:
    environment("ALL_PROXY", f"http://{dead}")
    async with AsyncAcker(acker.url, startup_timeout=0.1) as client:
        with pytest.raises(RetriesExhausted, match=r"through the proxy http://127\.0\.0\.1:\d+ \(ALL_PROXY\)"):
            await client.topologies.get("default")


@pytest.mark.parametrize("url", UNUSABLE)
@pytest.mark.parametrize("kind", [Acker, AsyncAcker])
@pytest.mark.anyio
async def test_a_client_refuses_a_proxy_that_cannot_be_used(
    acker: AckerProcess, environment: Setenv, kind: type[Acker | AsyncAcker], url: str
) -> None:
    environment("all_proxy", url)
    with pytest.raises(UsageError, match="all_proxy") as raised:
        kind(acker.url)
    assert isinstance(raised.value, AckerError)


def test_an_answer_of_the_proxys_own_names_it(
    proxy: ForwardProxy, acker: AckerProcess, environment: Setenv, capsys: pytest.CaptureFixture[str]
) -> None:
    environment("http_proxy", proxy.address)
    proxy.status = 403
    for command in (COMMANDS["topology list"], COMMANDS["emit"], COMMANDS["health"]):
        assert run(command) == 1
        assert f"through the proxy http://{proxy.address} (http_proxy)" in capsys.readouterr().err
