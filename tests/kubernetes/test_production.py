"""*To production* of docs/kubernetes.md, on a Valkey Cluster as the example asks for."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.chart import DEPLOY
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.page import blocks, paste
from tests.kubernetes.releases import Release, namespace
from tests.kubernetes.valkey_cluster import NAMESPACE, ValkeyCluster


@pytest.fixture(scope="module")
def made(cluster: Cluster) -> Iterator[Release]:
    """The namespace of the page, in which nothing is installed yet."""
    with namespace(cluster, name=NAMESPACE) as name:
        yield Release(cluster=cluster, namespace=name, values=())


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """A folder with what the page names, as the root of the repository."""
    (tmp_path / "deploy").symlink_to(DEPLOY)
    return tmp_path


def test_to_production_runs_as_the_page_says(cluster: Cluster, made: Release, there: Path) -> None:
    users, secrets, install, *_ = blocks("To production")
    secret, operator = users.splitlines()
    assert operator == "kubectl apply -f deploy/examples/valkey-cluster/cluster.yaml"
    paste(cluster, secret, folder=there)
    ValkeyCluster(cluster=cluster).make()
    paste(cluster, secrets, folder=there)
    copy, _, rest = install.partition("\n")
    paste(cluster, copy, folder=there)
    adapt(there / "my-values.yaml")
    paste(cluster, rest, folder=there)
    assert len(made.ready_pods()) == 3
    assert len(made.ready_pods("worker")) == 2
    found = made.kubectl("get", "hpa,pdb,networkpolicy", "--output", "name").split()
    assert len(found) >= 5, found


def adapt(values: Path) -> None:
    """Name the image by its tag, as nothing has a digest here, and let three replicas fit nodes of two cores."""
    text = values.read_text(encoding="utf-8")
    text, digests = re.subn(r"digest: sha256:0+", "tag: 0.1.0", text)
    text, requests = re.subn(r'requests: \{cpu: "1"', "requests: {cpu: 50m", text)
    assert (digests, requests) == (1, 1)
    values.write_text(text, encoding="utf-8")
