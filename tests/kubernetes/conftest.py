"""Fixtures of the tests on a real Kubernetes."""

import os
from collections.abc import Iterator

import pytest

from tests.kubernetes import figures
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.cluster import cluster as run_cluster
from tests.kubernetes.figures import Cost, Usage
from tests.kubernetes.requirements import missing

PATIENCE_S = 1800
"""What a test may take on a busy machine: rollouts wait for grace periods."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--figures", action="store_true", help="write what is measured into docs/kubernetes.md")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let test_machine run before the cluster of all others starts: one runs at a time."""
    own = [item for item in items if "tests/kubernetes/" in item.nodeid]
    for item in own:
        item.add_marker(pytest.mark.timeout(PATIENCE_S))
    items.sort(key=lambda item: item in own and "test_machine" not in item.nodeid)


@pytest.fixture(scope="session", autouse=True)
def able() -> None:
    """Skip all of these tests where no cluster can run."""
    if lacks := missing():
        assert os.environ.get("CI") != "true", lacks
        pytest.skip(f"no Kubernetes here: {lacks}")


@pytest.fixture(scope="session")
def cluster(able: None) -> Iterator[Cluster]:
    """A cluster of two nodes, for all tests."""
    with run_cluster() as made:
        yield made


@pytest.fixture(scope="session")
def costs(request: pytest.FixtureRequest) -> Iterator[list[Cost]]:
    """What the faults of this run cost, to which each test of one adds."""
    costs: list[Cost] = []
    yield costs
    if request.config.getoption("--figures"):
        figures.write(Cost, costs)


@pytest.fixture(scope="session")
def usages(request: pytest.FixtureRequest) -> Iterator[list[Usage]]:
    """What the replicas of this run took, to which each test that measures it adds."""
    usages: list[Usage] = []
    yield usages
    if request.config.getoption("--figures"):
        figures.write(Usage, usages)
