"""An API server takes every example of values, and all of install.yaml, without a warning."""

import json
from collections.abc import Iterator

import pytest

from tests.deploy.chart import CASES, CHART, DEPLOY
from tests.deploy.manifests import load
from tests.kubernetes.cluster import Cluster, warnings
from tests.kubernetes.releases import namespace

INSTALL = (DEPLOY / "install.yaml").read_text(encoding="utf-8")
OF_OPERATORS = ("monitoring.coreos.com/", "keda.sh/", "gateway.networking.k8s.io/")
"""Groups of kinds that a plain cluster does not know."""


@pytest.fixture(scope="module")
def there(cluster: Cluster) -> Iterator[str]:
    """The namespace that install.yaml is for, in which also whoever makes pods that are not confined is warned."""
    with namespace(cluster, name="acker") as name:
        cluster.kubectl("label", "namespace", name, "pod-security.kubernetes.io/warn=restricted")
        yield name


def taken(cluster: Cluster, text: str, namespace: str) -> int:
    """See that the API server would take all objects of a text, and return how many there are."""
    plain = [each for each in load(text) if not each["apiVersion"].startswith(OF_OPERATORS)]
    for each in plain:
        each["metadata"]["namespace"] = namespace
    asked = ("kubectl", "--namespace", namespace, "apply", "--dry-run=server", "--filename", "-")
    ran = cluster.ran(*asked, text="\n---\n".join(map(json.dumps, plain)))
    assert (ran.returncode, warnings(ran.stderr)) == (0, []), ran.stderr
    return len(plain)


@pytest.mark.parametrize("case", CASES)
def test_the_api_server_takes_every_example_of_values(cluster: Cluster, there: str, case: str) -> None:
    files = [word for path in CASES[case] for word in ("--values", str(path))]
    text = cluster.output("helm", "template", "acker", str(CHART), "--namespace", there, *files)
    assert taken(cluster, text, there) >= 5


def test_the_api_server_takes_install_yaml(cluster: Cluster, there: str) -> None:
    assert taken(cluster, INSTALL, there) >= 5


def test_the_api_server_refuses_a_field_that_is_misspelt(cluster: Cluster, there: str) -> None:
    text = INSTALL.replace("terminationGracePeriodSeconds", "grace")
    with pytest.raises(AssertionError, match="unknown field"):
        taken(cluster, text, there)


def test_the_api_server_warns_of_pods_that_are_not_confined(cluster: Cluster, there: str) -> None:
    text = INSTALL.replace("runAsNonRoot: true", "runAsNonRoot: false")
    with pytest.raises(AssertionError, match='would violate PodSecurity "restricted'):
        taken(cluster, text, there)
