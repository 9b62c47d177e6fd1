"""The releases of the documentation, played pod by pod: the chart's own test passes on what the chart renders."""

import contextlib
from pathlib import Path

import httpx
import pytest
from acker_service.redis.embedded import find_program
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.deploy.chart import CASES, Chart
from tests.deploy.conftest import chart, tools
from tests.image.building import Built
from tests.image.engine import Engine
from tests.image.kubelet import secret
from tests.image.release import Release, release
from tests.support.caller import ack, init
from tests.support.servers import run_acker
from tests.support.waiting import eventually_true

__all__ = ["chart", "tools"]
pytestmark = pytest.mark.timeout(1800)

OURS = ("image.repository=localhost/acker", "image.tag=test", "image.digest=", "image.pullPolicy=Never")
ONE_OF_EACH = ("api.autoscaling.enabled=false", "api.replicas=1", "worker.replicas=1")
WAITING_FOR_REPLICAS = ("--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction")
AT_ONCE = ("--repl-diskless-sync-delay", "0")


def test_a_first_look_runs_and_passes_the_test_of_the_chart(
    engine: Engine, image: Built, valkey_image: str, chart: Chart, tmp_path: Path
) -> None:
    with release(engine, chart.objects(*CASES["try"], sets=(*OURS, *ONE_OF_EACH)), tmp_path) as played:
        for pod in ("acker-valkey", "acker-worker", "acker-api"):
            played.play(pod)
        tested = played.play("acker-roundtrip")
        assert (tested.ended(), "was acked, and its completion read" in tested.log()) == (0, True), tested.log()
        assert outcomes(played, {}) == [("42", "acked")]


def test_production_runs_with_the_secrets_of_the_documentation_and_passes_the_test_of_the_chart(
    engine: Engine, image: Built, chart: Chart, tmp_path: Path
) -> None:
    admin, spout = (made_key(scope) for scope in ("admin", "spout"))
    secrets = [
        secret("acker-redis", url="redis://primary:6379"),
        secret("acker-keys", keys_json=f'{{"keys": [{admin[1]}, {spout[1]}]}}'),
        secret("acker-test-key", key=spout[0]),
    ]
    objects = chart.objects(*CASES["production"], sets=(*OURS, *ONE_OF_EACH))
    with release(engine, objects + secrets, tmp_path, "primary", "replica") as played:
        start_valkeys(played)
        for pod in ("acker-worker", "acker-api"):
            played.play(pod)
        tested = played.play("acker-roundtrip")
        assert (tested.ended(), "was acked, and its completion read" in tested.log()) == (0, True), tested.log()
        assert outcomes(played, {"Authorization": f"Bearer {admin[0]}"}) == [("42", "acked")]
        with pytest.raises(httpx.HTTPStatusError, match="401"):
            outcomes(played, {})


def made_key(scope: str) -> tuple[str, str]:
    """Make a key, and return it, and its entry in the file of keys."""
    made = run_acker(
        "key", "make", "--name", scope, "--scope", scope, *(["--topology", "default"] * (scope == "spout"))
    )
    key, entry = made.stdout.split("\n")[:2]
    return key, entry


def start_valkeys(played: Release) -> None:
    """Start a primary and its replica, on which the writes of production wait."""
    primary = played.hosts["primary"]
    for name, more in (("primary", ()), ("replica", ("--replicaof", primary.address, "6379"))):
        folder = played.folder / name
        folder.mkdir()
        command = [
            find_program(),
            "--protected-mode",
            "no",
            "--dir",
            str(folder),
            *WAITING_FOR_REPLICAS,
            *AT_ONCE,
            *more,
        ]
        played.hosts[name].start(command, log=folder / "log")
    eventually_true(lambda: _has_a_replica(primary.address), within=120)


def _has_a_replica(address: str) -> bool:
    with contextlib.suppress(RedisConnectionError), Redis(host=address, socket_timeout=30) as redis:
        return redis.info("replication").get("slave0", {}).get("state") == "online"
    return False


def outcomes(played: Release, headers: dict[str, str]) -> list[tuple[str, str]]:
    """Take a root through the Service, and return what was told of it."""
    at = f"http://{played.hosts['acker-api'].address}:8700/v1/topologies/default"
    for op in (init(1, 9, message_id="42"), ack(1, 9)):
        body = {name: value for name, value in op.items() if name != "op"}
        write(f"{at}/{op['op']}", body, headers | {"Idempotency-Key": f"{op['op']}-1"})
    told = httpx.get(f"{at}/spouts/orders/completions", headers=headers, timeout=60).raise_for_status()
    return [(one["message_id"], one["outcome"]) for one in told.json()["completions"]]


def write(url: str, body: dict[str, object], headers: dict[str, str]) -> None:
    """Call until it is answered: replicas are waited for but a second each time."""

    def is_answered() -> bool:
        answer = httpx.post(url, json=body, headers=headers, timeout=60)
        return answer.status_code != 503 and bool(answer.raise_for_status())

    eventually_true(is_answered, within=120)
