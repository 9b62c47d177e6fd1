"""What a pod is told is what the values say, as the service reads it."""

import json
from pathlib import Path

import pytest
import yaml
from acker_service.settings import Settings, read_settings

from tests.deploy.chart import CASES, CHART, Chart, environment, one
from tests.support.servers import run_acker

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
OWNED = {"redis_url", "port", "data_dir", "store_port", "role", "open", "keys_file", "tls_cert", "tls_key", "processes"}
"""Settings that follow from other values, and replicas instead of processes: nobody can contradict them in `config`."""
BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


def settings_of(chart: Chart, name: str, *values: Path, sets: tuple[str, ...] = ()) -> Settings:
    """Read what a Deployment is told as the service would."""
    told = environment(one(chart.objects(*values, sets=sets), "Deployment", name))
    plain = {key: text for key, text in told.items() if key.startswith("ACKER_") and isinstance(text, str)}
    options = {key.removeprefix("ACKER_").lower(): text for key, text in plain.items()}
    return read_settings(**{"redis_url": "redis://of-the-secret"} | options)


@pytest.mark.parametrize("case", CASES)
def test_the_service_takes_what_it_is_told(chart: Chart, case: str) -> None:
    for workload in chart.objects(*CASES[case]):
        if workload["kind"] == "Deployment":
            settings = settings_of(chart, workload["metadata"]["name"], *CASES[case])
            assert settings.port == 8700
            assert settings.open is (settings.keys_file is None)


def test_the_schema_knows_every_setting_with_the_bounds_of_the_service() -> None:
    of_service = Settings.model_json_schema()["properties"]
    of_chart = SCHEMA["definitions"]["config"]["properties"]
    assert set(of_chart) == {f"ACKER_{name.upper()}" for name in set(of_service) - OWNED}
    for name in set(of_service) - OWNED:
        ours, its = of_chart[f"ACKER_{name.upper()}"], of_service[name]
        assert {key: ours.get(key) for key in BOUNDS} == {key: its.get(key) for key in BOUNDS}, name
        if "enum" in its:
            assert ours["enum"] == its["enum"], name


def test_without_keys_the_names_of_the_service_are_answered_and_those_that_are_added(chart: Chart) -> None:
    own = "acker,acker.acks,acker.acks.svc,acker.acks.svc.cluster.local"
    assert settings_of(chart, "acker-api", *CASES["try"]).allowed_hosts == own
    more = settings_of(chart, "acker-api", *CASES["try"], sets=(r"config.ACKER_ALLOWED_HOSTS=acker.example\,.corp",))
    assert more.allowed_hosts == f"{own},acker.example,.corp"
    named = settings_of(chart, "other-api", *CASES["try"], sets=("fullnameOverride=other",))
    assert named.allowed_hosts.split(",")[0] == "other"
    assert settings_of(chart, "acker-api", *CASES["plain"]).allowed_hosts == ""


@pytest.mark.parametrize("number", [1_000_000, 2_000_000, 67_108_864_000, 1_099_511_627_776])
@pytest.mark.parametrize("way", ["file", "set"])
def test_large_numbers_stay_whole(chart: Chart, tmp_path: Path, number: int, way: str) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"config": {"ACKER_MAX_IN_FLIGHT_BYTES": number}} if way == "file" else {}))
    sets = (f"config.ACKER_MAX_IN_FLIGHT_BYTES={number}",) if way == "set" else ()
    told = environment(one(chart.objects(*CASES["plain"], values, sets=sets), "Deployment", "acker-api"))
    assert told["ACKER_MAX_IN_FLIGHT_BYTES"] == str(number)


def test_large_numbers_in_further_variables_and_tolerations_stay_whole(chart: Chart) -> None:
    objects = chart.objects(*CASES["full"], sets=("extraEnv.LARGE=3000000",))
    worker = one(objects, "Deployment", "acker-worker")
    assert environment(worker)["LARGE"] == "3000000"
    assert worker["spec"]["template"]["spec"]["tolerations"][0]["tolerationSeconds"] == 2_000_000


def test_fractions_and_truths_are_told_as_the_service_reads_them(chart: Chart) -> None:
    settings = settings_of(chart, "acker-api", *CASES["full"])
    assert (settings.body_timeout_s, settings.fsync_asserted, settings.durability) == (2.5, False, "replica:1")
    assert settings.callback_allow_cidrs == "10.9.0.0/16, 192.168.7.0/24"


@pytest.mark.parametrize(("deployment", "case", "role"), [
    ("acker-api", "plain", "api"), ("acker-worker", "plain", "worker"), ("acker-api", "together", "all"),
])  # fmt: skip
def test_each_deployment_has_its_role(chart: Chart, deployment: str, case: str, role: str) -> None:
    assert settings_of(chart, deployment, *CASES[case]).role == role


def test_there_are_no_workers_apart_where_one_deployment_does_both(chart: Chart) -> None:
    names = [o["metadata"]["name"] for o in chart.objects(*CASES["together"]) if o["kind"] == "Deployment"]
    assert names == ["acker-api"]


def test_secrets_are_only_named(chart: Chart) -> None:
    objects = chart.objects(*CASES["full"])
    told = environment(one(objects, "Deployment", "acker-worker"))
    assert told["ACKER_REDIS_URL"] == {"secretKeyRef": {"name": "acker-redis", "key": "url"}}
    assert told["ACKER_KEYS_FILE"] == "/etc/acker/keys/keys.json"
    assert not [some for some in objects if some["kind"] == "Secret"]


def test_an_empty_address_in_the_secret_ends_the_start_instead_of_starting_a_store(chart: Chart) -> None:
    told = environment(one(chart.objects(*CASES["plain"]), "Deployment", "acker-worker"))
    lonely = {**told, "ACKER_REDIS_URL": "", "ACKER_KEYS_FILE": "", "ACKER_OPEN": "true"}
    ran = run_acker("serve", **lonely)
    assert ran.returncode == 2
    assert "name a Redis with --redis-url (ACKER_REDIS_URL)" in ran.stderr
    whole = run_acker("serve", **{**lonely, "ACKER_ROLE": "all"})
    assert whole.returncode == 2
    assert "/dev/null/no-store-in-a-pod" in whole.stderr
