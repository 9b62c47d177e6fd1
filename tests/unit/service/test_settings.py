import json
import os
from pathlib import Path
from typing import Any

import platformdirs
import pytest
from acker_service.service_links import log_service_links, service_links
from acker_service.settings import CLIENT_VARIABLES, Settings, read_settings
from pydantic import ValidationError

# What the contract says of each setting: its default, and a value that is allowed, as the environment holds it.
CONTRACT: dict[str, tuple[Any, str, Any]] = {
    "redis_url": (None, "redis://store:6379", "redis://store:6379"),
    "host": ("127.0.0.1", "localhost", "localhost"),
    "port": (8_700, "0", 0),
    "data_dir": (Path(platformdirs.user_state_dir("acker")), "/var/lib/acker", Path("/var/lib/acker")),
    "store_port": (0, "6400", 6_400),
    "open": (False, "true", True),
    "keys_file": (None, "/etc/acker/keys.json", Path("/etc/acker/keys.json")),
    "tls_cert": (None, "/etc/acker/tls.crt", Path("/etc/acker/tls.crt")),
    "tls_key": (None, "/etc/acker/tls.key", Path("/etc/acker/tls.key")),
    "allowed_hosts": ("", "acker,.internal", "acker,.internal"),
    "allowed_origins": ("", "https://acker.example", "https://acker.example"),
    "message_url": (None, "https://shop.example/{message_id}", "https://shop.example/{message_id}"),
    "durability": ("relaxed", "fsync", "fsync"),
    "fsync_asserted": (False, "true", True),
    "idempotency_window_ms": (600_000, "60000", 60_000),
    "buckets": (16_384, "16", 16),
    "mailbox_max": (1_000_000, "1", 1),
    "max_spouts": (10_000, "3", 3),
    "max_early": (1_000_000, "1", 1),
    "early_max_bytes": (67_108_864, "65536", 65_536),
    "remembered_max_bytes": (1_073_741_824, "1048576", 1_048_576),
    "trace_max_bytes": (67_108_864, "0", 0),
    "trace_ttl_ms": (3_600_000, "1000", 1_000),
    "spout_idle_ms": (86_400_000, "1000", 1_000),
    "tick_ms": (250, "10", 10),
    "max_body_bytes": (4_194_304, "1024", 1_024),
    "max_batch": (10_000, "1", 1),
    "max_in_flight": (1_000, "1", 1),
    "max_in_flight_bytes": (67_108_864, "1024", 1_024),
    "max_waiting": (10_000, "0", 0),
    "max_connections": (16_384, "1", 1),
    "max_header_bytes": (65_536, "1024", 1_024),
    "body_timeout_s": (30.0, "2.5", 2.5),
    "keep_alive_s": (75, "0", 0),
    "shutdown_drain_s": (5.0, "0", 0.0),
    "backlog": (2_048, "1", 1),
    "role": ("all", "worker", "worker"),
    "processes": (1, "2", 2),
    "callback_allow_cidrs": ("", "10.0.0.0/8", "10.0.0.0/8"),
    "callback_allow_hosts": ("", "hooks,.internal", "hooks,.internal"),
    "callback_schedule_s": ("1,5,30,120,600,1800,7200,18000,36000,36000", "0.5,2", "0.5,2"),
    "callback_retry_after_max_s": (3_600.0, "0", 0.0),
    "callback_timeout_s": (30.0, "2.5", 2.5),
    "callback_max_batch": (500, "1", 1),
    "callback_max_wait_ms": (20, "0", 0),
    "log_level": ("info", "debug", "debug"),
    "log_format": ("text", "json", "json"),
}
BOUNDS = [
    ("port", 0, 65_535),
    ("store_port", 0, 65_535),
    ("idempotency_window_ms", 60_000, 604_800_000),
    ("buckets", 1, 1_048_576),
    ("mailbox_max", 1, 2_147_483_647),
    ("max_spouts", 1, 1_000_000),
    ("max_early", 1, 2_147_483_647),
    ("early_max_bytes", 65_536, 1_099_511_627_776),
    ("remembered_max_bytes", 1_048_576, 1_099_511_627_776),
    ("trace_max_bytes", 0, 1_099_511_627_776),
    ("trace_ttl_ms", 1_000, 604_800_000),
    ("spout_idle_ms", 1_000, 31_536_000_000),
    ("tick_ms", 10, 60_000),
    ("max_body_bytes", 1_024, 268_435_456),
    ("max_batch", 1, 10_000),
    ("max_in_flight", 1, 1_000_000),
    ("max_in_flight_bytes", 1_024, 1_099_511_627_776),
    ("max_waiting", 0, 1_000_000),
    ("max_connections", 1, 1_000_000),
    ("max_header_bytes", 1_024, 16_777_216),
    ("keep_alive_s", 0, 3_600),
    ("shutdown_drain_s", 0, 3_600),
    ("backlog", 1, 65_535),
    ("processes", 1, 128),
    ("callback_retry_after_max_s", 0, 604_800),
    ("callback_max_batch", 1, 1_000),
    ("callback_max_wait_ms", 0, 10_000),
]


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith("ACKER_"):
            monkeypatch.delenv(name)


def test_the_defaults_are_those_of_the_contract() -> None:
    assert read_settings().model_dump() == {name: default for name, (default, _, _) in CONTRACT.items()}


@pytest.mark.parametrize("name", CONTRACT)
def test_a_setting_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    default, text, value = CONTRACT[name]
    monkeypatch.setenv("ACKER_REDIS_URL", "redis://store:6379")  # a role of its own needs one
    for other in {"tls_cert", "tls_key"} if name.startswith("tls_") else ():  # one never without the other
        monkeypatch.setenv(f"ACKER_{other.upper()}", "/etc/acker/other.pem")
    monkeypatch.setenv(f"ACKER_{name.upper()}", text)
    assert getattr(read_settings(), name) == value != default


def test_a_variable_without_the_prefix_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "9000")
    assert read_settings().port == 8_700


def test_an_option_wins_over_the_environment_and_one_left_out_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKER_PORT", "9000")
    monkeypatch.setenv("ACKER_TICK_MS", "100")
    settings = read_settings(port=9_001, tick_ms=None)
    assert (settings.port, settings.tick_ms) == (9_001, 100)


@pytest.mark.parametrize(("name", "least", "most"), BOUNDS)
def test_a_number_is_taken_within_its_bounds_and_refused_outside(name: str, least: int, most: int) -> None:
    for value in (least, most):
        assert getattr(read_settings(**{name: value}), name) == value
    for value in (least - 1, most + 1):
        with pytest.raises(
            ValueError, match=rf"^{said(name)} has to be a .*number from {least} to {most}; it is {value}$"
        ):
            read_settings(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("log_level", "loud", "debug, info, warning or error"),
        ("log_format", "xml", "text or json"),
        ("role", "boss", "all, api or worker"),
        ("port", "http", "a whole number from 0 to 65535"),
        ("tick_ms", "1.5", "a whole number from 10 to 60000"),
        ("body_timeout_s", "0", "a number above 0, up to 3600"),
        ("callback_timeout_s", "nan", "a number above 0, up to 600"),
        ("open", "perhaps", "true or false"),
    ],
)
def test_a_value_of_another_kind_is_refused_by_option_and_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, expected: str
) -> None:
    monkeypatch.setenv(f"ACKER_{name.upper()}", value)
    with pytest.raises(ValueError, match=f"^{said(name)} has to be {expected}; it is '{value}'$"):
        read_settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("durability", "replica:0"),
        ("callback_allow_cidrs", "10.0.0.0/99"),
        ("callback_allow_hosts", "*"),
        ("allowed_hosts", "*"),
        ("allowed_hosts", "cafe:8700"),
        ("callback_allow_hosts", "cafe:8700"),
        ("allowed_origins", "https://*.example"),
        ("allowed_origins", "acker.example"),
        ("message_url", "javascript:alert({message_id})"),
        ("message_url", "https://shop.example/orders"),
        ("callback_schedule_s", "soon"),
        ("redis_url", "redis://:hunter2/x@store"),
        ("redis_url", "http://:hunter2@store"),
    ],
)
def test_a_text_that_cannot_be_read_is_refused_by_option_and_variable_and_an_address_is_not_shown(
    name: str, value: str
) -> None:
    with pytest.raises(ValueError, match=f"^{said(name)}: .") as refusal:
        read_settings(**{name: value})
    assert "\n" not in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


def said(name: str) -> str:
    """How errors name a setting, as a regular expression."""
    return rf"--{name.replace('_', '-')} \(ACKER_{name.upper()}\)"


def test_all_faults_are_told_at_once_a_line_each_and_no_address_of_a_store_with_them() -> None:
    with pytest.raises(ValueError, match="port") as refusal:
        read_settings(port=-1, tick_ms=1, redis_url=["redis://:hunter2@store"])
    assert not isinstance(refusal.value, ValidationError)
    named = [line.split(" has to be")[0] for line in str(refusal.value).splitlines()]
    assert named == ["--redis-url (ACKER_REDIS_URL)", "--port (ACKER_PORT)", "--tick-ms (ACKER_TICK_MS)"]
    assert "hunter2" not in str(refusal.value)


def test_an_option_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^prot: "):
        read_settings(prot=8_700)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_without_keys_a_loopback_address_may_be_listened_on(host: str) -> None:
    assert read_settings(host=host).host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "", "acker.example", "localhost.example"])
def test_without_keys_any_other_address_has_to_be_allowed_in_so_many_words(host: str) -> None:
    advice = r"--host \(ACKER_HOST\), name .* --keys-file \(ACKER_KEYS_FILE\), or .* --open \(ACKER_OPEN=true\)$"
    with pytest.raises(ValueError, match=rf"could use the acker: listen on 127\.0\.0\.1 with {advice}"):
        read_settings(host=host)
    assert read_settings(host=host, open=True).host == host


@pytest.mark.parametrize("role", ["api", "worker"])
def test_a_part_of_an_acker_needs_a_store_that_others_reach(role: str) -> None:
    with pytest.raises(ValueError, match=r"name a Redis with --redis-url \(ACKER_REDIS_URL\)"):
        read_settings(role=role)
    assert read_settings(role=role, redis_url="redis://store:6379").role == role


def test_a_worker_is_one_process() -> None:
    with pytest.raises(ValueError, match=r"--processes \(ACKER_PROCESSES\) is 2, and a worker is one process"):
        read_settings(role="worker", redis_url="redis://store:6379", processes=2)
    assert read_settings(role="worker", redis_url="redis://store:6379", processes=1).processes == 1


@pytest.mark.parametrize("name", ["max_in_flight", "max_connections", "max_waiting"])
def test_each_process_needs_a_part_of_the_limits(name: str) -> None:
    with pytest.raises(ValueError, match=rf"each process needs a part of {said(name)}, which is 2: raise it"):
        read_settings(processes=3, **{name: 2})
    assert read_settings(processes=3, **{name: 3}).processes == 3
    assert read_settings(processes=3, max_waiting=0).max_waiting == 0


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().port = 1


LINKS = {
    "ACKER_SERVICE_HOST": "10.0.0.1",
    "ACKER_SERVICE_PORT_HTTP": "8700",
    "ACKER_PORT": "tcp://10.0.0.1:8700",
    "ACKER_PORT_8700_UDP_ADDR": "10.0.0.1",
    "ACKER_REDIS_SERVICE_HOST": "10.0.0.2",
    "ACKER_REDIS_SERVICE_PORT": "6379",
    "ACKER_REDIS_PORT": "tcp://10.0.0.2:6379",
    "ACKER_REDIS_PORT_6379_TCP": "tcp://10.0.0.2:6379",
    "ACKER_STORE_SERVICE_HOST": "10.0.0.3",
    "ACKER_STORE_PORT": "udp://10.0.0.3:53",
}
"""Service links of the Services acker, acker-redis and acker-store."""


def test_service_links_are_listed_and_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in LINKS.items():
        monkeypatch.setenv(name, value)
    assert service_links(os.environ) == sorted(LINKS)
    assert read_settings().model_dump() == {name: default for name, (default, _, _) in CONTRACT.items()}


def test_a_setting_beside_service_links_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (LINKS | {"ACKER_PORT": "9000", "ACKER_STORE_PORT": "9001"}).items():
        monkeypatch.setenv(name, value)
    settings = read_settings()
    assert (settings.port, settings.store_port) == (9_000, 9_001)


@pytest.mark.parametrize("name", ["ACKER_REDIS_PORT", "ACKER_REDIS_PORT_6379_TCP", "ACKER_REDIS_SERVICE_PORT"])
def test_a_link_of_another_service_needs_its_host_beside_it(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, LINKS[name])
    with pytest.raises(ValueError, match=f"^{name}: no setting has this name"):
        read_settings()
    monkeypatch.setenv("ACKER_REDIS_SERVICE_HOST", "10.0.0.2")
    assert read_settings().port == 8_700


def test_a_service_link_is_warned_of_once_and_without_one_nothing_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log_service_links()
    assert not caplog.records
    monkeypatch.setenv("ACKER_PORT", "tcp://10.0.0.1:8700")
    log_service_links()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "ACKER_PORT" in caplog.text


@pytest.mark.parametrize("name", sorted(CLIENT_VARIABLES))
def test_a_variable_of_the_client_is_passed_over(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "x")
    assert not service_links(os.environ)
    assert read_settings().port == 8_700


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("ACKER_TICKMS", "did you mean ACKER_TICK_MS?"),
        ("acker_tickms", "did you mean ACKER_TICK_MS?"),
        ("ACKER_TOKEN", "remove it"),
        ("ACKER_", "remove it"),
        ("ACKER_" + "X" * 10_000, "remove it"),
    ],
)
def test_a_variable_that_is_not_known_is_refused_with_the_nearest(
    monkeypatch: pytest.MonkeyPatch, name: str, says: str
) -> None:
    monkeypatch.setenv(name, "hunter2")
    with pytest.raises(ValueError, match="no setting has this name") as refusal:
        read_settings()
    assert str(refusal.value) == f"{name}: no setting has this name; {says}"


def test_every_setting_of_the_environment_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.setenv(f"ACKER_{name.upper()}", "")
    assert read_settings().port == 8_700


def test_a_variable_of_another_prefix_is_nothing_to_the_acker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACKERS", "ACKER", "MY_ACKER_TICKMS", "ACKERTICKMS"):
        monkeypatch.setenv(name, "x")
    assert read_settings().port == 8_700


def test_each_setting_is_shown_with_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKER_TICK_MS", "17")
    monkeypatch.setenv("ACKER_PORT", "9000")
    monkeypatch.setenv("ACKER_HOST", "")
    shown = read_settings(port=9_001, max_batch=None).public()
    assert list(shown) == [f"ACKER_{name.upper()}" for name in CONTRACT]
    assert shown["ACKER_TICK_MS"] == {"value": 17, "source": "environment"}
    assert shown["ACKER_PORT"] == {"value": 9_001, "source": "option"}
    others = {name: one["source"] for name, one in shown.items() if name not in ("ACKER_TICK_MS", "ACKER_PORT")}
    assert set(others.values()) == {"default"}
    json.dumps(shown)


@pytest.mark.parametrize(
    ("url", "value"),
    [
        ("redis://operator:hunter2@redis:6379/1?client_name=hunter3", "redis://redis:6379/1"),
        ("redis+sentinel://:hunter2@a:1,b:2/primary?sentinel_password=hunter3", "redis+sentinel://a:1,b:2/primary"),
        ("redis+cluster://hunter2@a,b", "redis+cluster://a,b"),
        ("unix:///run/valkey.sock", "unix:///run/valkey.sock"),
    ],
)
def test_an_address_is_shown_without_its_login(url: str, value: str) -> None:
    assert read_settings(redis_url=url).public()["ACKER_REDIS_URL"] == {"value": value, "source": "option"}
