"""The chart's NetworkPolicies, enforced: what must pass passes, and nothing else; without them all of it passes."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.kubernetes import layout, pods, policies, receiver
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.releases import PATIENCE, Release, namespace, release, start_receiver

CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5)"
RESOLVE = "import socket, sys; socket.getaddrinfo(sys.argv[1], None)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """A release whose policies are enforced, and pods around it."""

    made: Release
    clients: str
    others: str
    hooks: str

    def reaches(self, source: str, target: str, port: int) -> bool:
        """Whether a connection can be made from ``namespace/object`` to an address."""
        where, _, what = source.partition("/")
        inside = ("--namespace", where, "exec", what, "--", "python3", "-c", CONNECT, target, str(port))
        return self.made.cluster.ran("kubectl", *inside).returncode == 0

    def from_pod(self, component: str) -> str:
        """Return a pod of the release as a source."""
        return f"{self.made.namespace}/{self.made.pods(component)[0]['metadata']['name']}"

    def name(self, service: str) -> str:
        """Return the name of a Service of the release."""
        return f"{service}.{self.made.namespace}.svc.{layout.DOMAIN}"


@pytest.fixture(scope="module")
def places(cluster: Cluster) -> Iterator[Places]:
    """The release, with callers in a namespace that may call it, in one that may not, and in one of receivers."""
    with ExitStack() as stack:
        made = stack.enter_context(release(cluster, "policies"))
        made.upgrade()
        labels = {"clients": "acker-clients=true", "others": "some=thing", "hooks": "acker-hooks=true"}
        names = {each: stack.enter_context(namespace(cluster)) for each in labels}
        for each, name in names.items():
            cluster.kubectl("label", "namespace", name, labels[each])
            cluster.apply(pods.pod("caller", "sleep", "infinity", node="node2"), namespace=name)
        for name in names.values():
            cluster.kubectl("--namespace", name, "wait", "--for=condition=Ready", "pod/caller", PATIENCE)
        yield Places(made=made, clients=names["clients"], others=names["others"], hooks=names["hooks"])


@pytest.fixture
def enforced(cluster: Cluster, places: Places) -> Iterator[Places]:
    """The same while its policies are enforced."""
    policies.enforce(cluster)
    yield places
    for running in cluster.nodes:
        running.inside("nft", "delete", "table", "ip", policies.TABLE)


def test_namespaces_that_are_named_call_the_api_and_others_do_not(enforced: Places) -> None:
    api = (enforced.name("acker"), 8700)
    assert enforced.reaches(f"{enforced.clients}/caller", *api)
    assert not enforced.reaches(f"{enforced.others}/caller", *api)


def test_without_enforcement_the_others_call_it_too(places: Places) -> None:
    assert places.reaches(f"{places.others}/caller", places.name("acker"), 8700)
    assert places.reaches(f"{places.others}/caller", places.name("acker-valkey"), 6379)


def test_the_store_is_reached_by_the_release_alone(enforced: Places) -> None:
    store = (enforced.name("acker-valkey"), 6379)
    assert enforced.reaches(enforced.from_pod("api"), *store)
    assert enforced.reaches(enforced.from_pod("worker"), *store)
    assert not enforced.reaches(f"{enforced.others}/caller", *store)
    assert not enforced.reaches(f"{enforced.clients}/caller", *store)


def test_helm_test_passes(enforced: Places, cluster: Cluster) -> None:
    """Its pod gets its address during the test: the rules have to know it before it calls."""
    enforced.made.ran("test", "acker", "--timeout=1s")
    policies.enforce(cluster)
    enforced.made.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/acker-roundtrip", PATIENCE)


@pytest.mark.parametrize("component", ["api", "worker"])
def test_neither_the_api_server_nor_metadata_are_in_reach(enforced: Places, component: str) -> None:
    source = enforced.from_pod(component)
    assert not enforced.reaches(source, layout.API_SERVICE, 443)
    assert not enforced.reaches(source, "169.254.169.254", 80)


@pytest.mark.parametrize("node", ["node1", "node2"])
def test_the_api_server_is_out_of_reach_also_from_its_own_node(enforced: Places, node: str) -> None:
    made, name = enforced.made, f"worker-on-{node}"
    found = made.pods("worker")[0]["metadata"]["labels"]
    labels = {each: value for each, value in found.items() if each.startswith("app.kubernetes.io/")}
    made.cluster.apply(pods.pod(name, "sleep", "infinity", node=node, labels=labels), namespace=made.namespace)
    made.kubectl("wait", "--for=condition=Ready", f"pod/{name}", PATIENCE)
    assert enforced.reaches(f"{made.namespace}/{name}", layout.API_SERVICE, 443), "the rules do not know it yet"
    policies.enforce(made.cluster)
    assert not enforced.reaches(f"{made.namespace}/{name}", layout.API_SERVICE, 443)


def test_without_enforcement_the_api_server_is_in_reach(places: Places) -> None:
    assert places.reaches(places.from_pod("worker"), layout.API_SERVICE, 443)


def test_webhooks_go_only_where_they_may(enforced: Places) -> None:
    start = Release(cluster=enforced.made.cluster, namespace=enforced.hooks, values=())
    start_receiver(start)
    policies.enforce(enforced.made.cluster)
    allowed = f"receiver.{enforced.hooks}.svc.{layout.DOMAIN}"
    assert enforced.reaches(enforced.from_pod("worker"), allowed, receiver.PORT)
    assert not enforced.reaches(enforced.from_pod("api"), allowed, receiver.PORT)
    assert not enforced.reaches(enforced.from_pod("worker"), enforced.name("acker"), 8700)
