"""`acker doctor --store` judges a Redis before an acker uses it, and `acker config` its settings."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from acker_client._cli.main import run
from acker_service import store_check
from acker_service.redis.embedded import EmbeddedServer
from redis import Redis

from tests.support.processes import freeze, thaw
from tests.support.servers import run_acker, valkey
from tests.support.stores import paired, running
from tests.support.waiting import eventually_true

GOOD = {
    "redis_version": "7.4.0",
    "maxmemory": 1_000,
    "used_memory": 100,
    "maxmemory_policy": "noeviction",
    "aof_enabled": 1,
    "role": "master",
}
SETTINGS_FOR_A_TEST = {"ACKER_PORT": "9", "ACKER_CALLBACK_SCHEDULE_S": "1,2"}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedServer]:
    """A server that is never found slow, on a busy machine either."""
    monkeypatch.setattr(store_check, "SLOW_MS", math.inf)
    with valkey(tmp_path / "store") as server:
        with Redis.from_url(server.url) as redis:
            redis.config_set("maxmemory", 1 << 30)
        yield server


def rules(findings: list[store_check.Finding]) -> list[tuple[str, str]]:
    return [(finding["rule"], finding["level"]) for finding in findings]


def test_a_good_store_has_no_finding_and_is_left_as_it_was(
    server: EmbeddedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", "--store", server.url]) == 0
    assert capsys.readouterr().out == ""
    with Redis.from_url(server.url) as redis:
        assert (redis.dbsize(), redis.function_list()) == (0, [])


def test_a_store_that_evicts_and_keeps_no_file_is_trouble(
    server: EmbeddedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with Redis.from_url(server.url) as redis:
        redis.config_set("maxmemory-policy", "allkeys-lru")
        redis.config_set("appendonly", "no")
    assert run(["doctor", "--store", server.url, "-o", "jsonl"]) == 11
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rules(found) == [("redis-away", "trouble"), ("redis-away", "warning")]
    assert "allkeys-lru" in found[0]["what"]


FREES = "Redis frees keys that expire while all requests wait"


@pytest.mark.parametrize(("kind", "default"), [("valkey", "yes"), ("redis7", "no"), ("redis8", "no")])
def test_a_store_that_frees_keys_while_all_wait_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, default: str
) -> None:
    with running(kind, tmp_path) as store, Redis.from_url(store.url) as redis:
        assert redis.config_get("lazyfree-lazy-expire") == {"lazyfree-lazy-expire": default}
        for setting in ("yes", "no"):
            redis.config_set("lazyfree-lazy-expire", setting)
            run(["doctor", "--store", store.url])
            said = capsys.readouterr().out
            assert (FREES in said, "set lazyfree-lazy-expire yes" in said) == (setting == "no",) * 2


def test_a_store_that_hides_its_configuration_has_no_finding_for_it(
    server: EmbeddedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with Redis.from_url(server.url) as redis:
        redis.config_set("lazyfree-lazy-expire", "no")
        redis.execute_command("ACL SETUSER", "default", "-config")
        assert run(["doctor", "--store", server.url]) == 0
    assert capsys.readouterr().out == ""


def test_a_store_of_another_layout_is_trouble(server: EmbeddedServer, capsys: pytest.CaptureFixture[str]) -> None:
    with Redis.from_url(server.url) as redis:
        redis.set("acker:{topologies}::layout", 1)
        redis.sadd("acker:{topologies}", "orders")
    assert run(["doctor", "--store", server.url]) == 11
    assert "layout" in capsys.readouterr().out


def test_a_store_that_does_not_answer_is_trouble_without_its_password(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--store", "redis://operator:hidden@127.0.0.1:1"]) == 11
    said = capsys.readouterr().out
    assert "127.0.0.1:1 cannot be used" in said
    assert "hidden" not in said


def test_an_address_that_is_none_is_a_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--store", "http://127.0.0.1"]) == 2
    assert "redis://" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, []),
        ({"redis_version": "6.2.14"}, [("redis-away", "trouble")]),
        ({"maxmemory_policy": "volatile-lru"}, [("redis-away", "trouble")]),
        ({"aof_enabled": 0}, [("redis-away", "warning")]),
        ({"aof_last_write_status": "err"}, [("redis-away", "trouble")]),
        ({"errorstat_MISCONF": {"count": 1}}, [("redis-away", "warning")]),
        ({"maxmemory": 0}, [("store-full", "warning")]),
        ({"used_memory": 801}, [("store-full", "trouble")]),
        ({"used_memory": 800}, []),
        ({"role": "slave"}, [("redis-away", "trouble")]),
    ],
    ids=str,
)
def test_a_server_is_judged_by_what_it_says(changed: dict[str, object], found: list[tuple[str, str]]) -> None:
    assert rules(list(store_check.judge_servers([GOOD | changed, GOOD | changed]))) == found


REPLICA = {"ip": "10.0.0.2", "port": 6379, "state": "online", "offset": 9_000_000, "lag": 1}


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, None),
        ({"offset": 9_000_000 - 1_048_576}, None),
        ({"offset": 9_000_000 - 1_048_577}, "it lacks the last 1,048,577 bytes"),
        ({"lag": 5}, None),
        ({"lag": 6}, "it has said nothing for 6 s"),
        ({"lag": 6, "offset": 0}, "it lacks the last 9,000,000 bytes, and has said nothing for 6 s"),
        ({"state": "wait_bgsave", "offset": 0, "lag": 0}, "it is given all data anew"),
        ({"state": "send_bulk", "offset": 0, "lag": 0}, "it is given all data anew"),
    ],
    ids=str,
)
def test_a_replica_that_lags_is_named(changed: dict[str, object], found: str | None) -> None:
    info = GOOD | {
        "connected_slaves": 2,
        "master_repl_offset": 9_000_000,
        "slave0": REPLICA,
        "slave1": REPLICA | changed,
    }
    lagging = list(store_check.judge_servers([info]))
    assert rules(lagging) == ([("redis-away", "warning")] if found else [])
    if found:
        assert lagging[0]["what"] == f"the replica 10.0.0.2:6379 lags: {found}"


def test_a_replica_that_stands_still_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with paired(tmp_path) as (store, replica):
        primary = store.members[0]
        primary.ask("CONFIG SET", "appendonly", "yes")
        primary.ask("CONFIG SET", "maxmemory", 1 << 30)
        eventually_true(lambda: run(["doctor", "--store", store.url]) == 0)
        freeze(replica.process.pid)
        primary.ask("SET", "large", "x" * 2_000_000)
        capsys.readouterr()
        assert run(["doctor", "--store", store.url]) == 10
        assert f"the replica 127.0.0.1:{replica.port} lags: it lacks the last 2,0" in capsys.readouterr().out
        thaw(replica.process.pid)
        eventually_true(lambda: run(["doctor", "--store", store.url]) == 0)


@pytest.mark.parametrize(("took_ms", "found"), [(5.0, []), (5.1, [("redis-away", "warning")])])
def test_a_slow_round_trip_is_a_warning(took_ms: float, found: list[tuple[str, str]]) -> None:
    assert rules(list(store_check.judge_round_trip(took_ms))) == found


def test_config_prints_the_settings_in_force_and_where_they_come_from() -> None:
    shown = run_acker("config", "--port", "10", **SETTINGS_FOR_A_TEST)
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert "ACKER_PORT=10  # option" in lines
    assert "ACKER_CALLBACK_SCHEDULE_S=1,2  # environment" in lines
    assert "ACKER_HOST=127.0.0.1  # default" in lines


def test_config_shows_no_login() -> None:
    shown = run_acker("config", ACKER_REDIS_URL="redis://operator:hidden@127.0.0.1:1/0")
    assert (shown.returncode, "hidden" in shown.stdout + shown.stderr) == (0, False)
    assert "127.0.0.1:1" in shown.stdout


def test_config_check_is_silent_where_serve_would_start() -> None:
    checked = run_acker("config", "--check", **SETTINGS_FOR_A_TEST)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "variables", "says"),
    [
        (("--port", "x"), {}, "--port (ACKER_PORT)"),
        ((), {"ACKER_PORTT": "1"}, "did you mean ACKER_PORT?"),
        (("--keys-file", "/nowhere.json"), {}, "--keys-file (ACKER_KEYS_FILE)"),
        (("--redis-url", "http://127.0.0.1"), {}, "--redis-url (ACKER_REDIS_URL)"),
        (("--host", "0.0.0.0"), {}, "others reach 0.0.0.0"),
    ],
    ids=str,
)
def test_config_check_says_what_serve_would_refuse(
    arguments: tuple[str, ...], variables: dict[str, str], says: str
) -> None:
    checked = run_acker("config", "--check", *arguments, **variables)
    served = run_acker("serve", *arguments, **variables)
    assert (checked.returncode, checked.stdout, checked.stderr) == (2, "", served.stderr)
    assert says in checked.stderr
