"""A cluster leaves the machine as it was, however it ends."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes import cache, images, machine, programs
from tests.support.waiting import eventually_true

ROOT = Path(__file__).parents[2]
WITHIN_S = 900.0
RUN = (sys.executable, "-m", "tests.kubernetes", "--nodes", "1")


@pytest.fixture
def unchanged() -> Iterator[None]:
    """See that after the test the machine is as before it; other tests may end meanwhile, and the kernel tidies up."""
    programs.built("kubernetes")
    programs.unpacked()
    images.archives()
    (cache.home() / "running").touch()
    before = machine.state()
    yield
    try:
        eventually_true(lambda: not machine.difference(before, machine.state()), within=60)
    except AssertionError:
        pytest.fail(f"the machine has changed: {machine.difference(before, machine.state())}")


@pytest.mark.usefixtures("unchanged")
def test_after_a_cluster_has_run_a_pod_the_machine_is_as_before() -> None:
    # not attached to: what a pod prints is lost that ends before kubectl has attached
    commands = (
        "kubectl run one --image=localhost/tools:1 --restart=Never -- id",
        "kubectl wait pod/one --for=jsonpath={.status.phase}=Succeeded --timeout=300s",
        "kubectl logs one",
    )
    told = [*RUN, "--", "bash", "-ec", "\n".join(commands)]
    ran = subprocess.run(told, cwd=ROOT, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "uid=0" in ran.stdout


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("at", ["nodes started", "cluster ready"])
def test_a_cluster_that_is_interrupted_leaves_nothing(at: str) -> None:
    with subprocess.Popen(RUN, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as runs:
        assert runs.stderr is not None
        assert any(at in line for line in runs.stderr), "it ended before"
        runs.send_signal(signal.SIGINT)
        told = runs.stderr.read()
    assert runs.returncode == 1
    assert told.endswith("interrupted; the cluster is gone\n")


@pytest.mark.usefixtures("unchanged")
def test_what_a_killed_run_leaves_is_removed_by_the_next() -> None:
    with subprocess.Popen(RUN, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as runs:
        assert runs.stderr is not None
        assert any("nodes started" in line for line in runs.stderr), "it ended before"
        runs.kill()
    ran = subprocess.run([*RUN, "--", "true"], cwd=ROOT, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert ran.returncode == 0, ran.stderr
