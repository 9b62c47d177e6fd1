"""Keys that are added to the Secret or taken out of it are so for every replica, without a restart."""

import json
from collections.abc import Iterator

import httpx
import pytest

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.releases import LOOK_S, Release, load, release, start_receiver
from tests.support.servers import run_acker
from tests.support.waiting import eventually_true

WITHIN_S = 600.0


def make_key(name: str) -> tuple[str, str]:
    """Return a key that may do everything, and its entry in keys.json."""
    ran = run_acker("key", "make", "--name", name, "--scope", "admin")
    assert ran.returncode == 0, ran.stderr
    key, entry, *_ = ran.stdout.splitlines()
    return key, entry


def put_keys(made: Release, *entries: str) -> None:
    """Write the Secret of the keys, in the place of the one that is there."""
    text = f'{{"keys": [{", ".join(entries)}]}}'
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "acker-keys"},
        "stringData": {"keys.json": text},
    }
    made.kubectl("apply", "--filename", "-", text=json.dumps(secret))


@pytest.fixture(scope="module")
def made(cluster: Cluster) -> Iterator[Release]:
    """A release that asks for keys; not installed yet."""
    with release(cluster, "keyed") as made:
        yield made


def test_a_new_key_is_accepted_while_the_old_one_goes_on_until_it_is_removed(made: Release) -> None:
    (old, old_entry), (new, new_entry) = make_key("old"), make_key("new")
    put_keys(made, old_entry)
    made.upgrade()
    pods = {pod["metadata"]["name"] for pod in made.pods()}
    with load(made, start_receiver(made), token=old) as running:
        assert answers(made, new) == {401}
        put_keys(made, old_entry, new_entry)
        eventually_true(lambda: answers(made, new) == {200}, within=WITHIN_S, every=LOOK_S)
    assert running.account.failures == {}
    assert (running.account.unanswered, running.lost(), running.wrong()) == ([], [], [])
    put_keys(made, new_entry)
    eventually_true(lambda: answers(made, old) == {401}, within=WITHIN_S, every=LOOK_S)
    assert answers(made, new) == {200}
    assert {pod["metadata"]["name"] for pod in made.pods()} == pods


def answers(made: Release, key: str) -> set[int]:
    """Return what each replica answers to a key."""
    addresses = [pod["status"]["podIP"] for pod in made.pods()]
    headers = {"Authorization": f"Bearer {key}"}
    urls = [f"http://{address}:8700/v1/topologies" for address in addresses]
    return {httpx.get(url, headers=headers, trust_env=False, timeout=20).status_code for url in urls}
