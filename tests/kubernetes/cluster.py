"""A Kubernetes of one or two nodes on this machine, for as long as a block runs."""

import contextlib
import fcntl
import json
import logging
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.deploy.tools import Tools, bring
from tests.kubernetes import cache, certificates, control_groups, images, layout, nodes, programs
from tests.kubernetes.nodes import Running
from tests.support.waiting import eventually_true

ADDONS = Path(__file__).with_name("addons.yaml")
PATIENCE_S = 600.0
"""For everything that a cluster does on a machine that may be busy."""

Object = dict[str, Any]
_log = logging.getLogger(__name__)


class Failed(Exception):
    """A program ended with an error; the message is what it wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster that runs."""

    run: Path
    tools: Tools
    nodes: tuple[Running, ...]

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables with which kubectl, helm and helm3 are found, and find the cluster; they write in ``run``."""
        homes = {f"HELM_{home}_HOME": f"{self.run}/home/helm" for home in ("CACHE", "CONFIG", "DATA")}
        path = f"{layout.programs(self.run)}:{self.tools.folder}/bin:{os.environ['PATH']}"
        config = str(layout.keys(self.run) / "admin.conf")
        return os.environ | homes | {"PATH": path, "KUBECONFIG": config, "HOME": f"{self.run}/home"}

    def ran(self, *command: str | Path, text: str | None = None) -> "subprocess.CompletedProcess[str]":
        """Run a program with ``text`` as its input until it ends, however it ends."""
        return subprocess.run(
            [str(word) for word in command],
            input=text,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            env=self.environment,
        )

    def output(self, *command: str | Path, text: str | None = None) -> str:
        """Return what a program prints. Raises `Failed`."""
        ran = self.ran(*command, text=text)
        if ran.returncode:
            words = " ".join(map(str, command))
            raise Failed(f"{words} ended with {ran.returncode}:\n{ran.stdout[-3000:]}{ran.stderr[-3000:]}")
        return ran.stdout

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        """Run kubectl. Raises `Failed`."""
        return self.output("kubectl", *arguments, text=text)

    def apply(self, *objects: Object, namespace: str = "default") -> None:
        """Create objects, or change them."""
        text = "\n---\n".join(json.dumps(each) for each in objects)
        self.kubectl("--namespace", namespace, "apply", "--filename", "-", text=text)

    def get(self, kind: str, name: str, *, namespace: str = "default") -> Object:
        """Return an object. Raises `Failed` if there is none."""
        found: Object = json.loads(self.kubectl("--namespace", namespace, "get", kind, name, "--output", "json"))
        return found

    def list(self, kind: str, selector: str = "", *, namespace: str = "default") -> list[Object]:
        """Return the objects of a kind with some labels."""
        asked = ("--namespace", namespace, "get", kind, "--selector", selector, "--output", "json")
        found: list[Object] = json.loads(self.kubectl(*asked))["items"]
        return found

    def node(self, name: str) -> Running:
        """Return a node by its name."""
        (found,) = [running for running in self.nodes if running.node.name == name]
        return found


def warnings(complaints: str) -> list[str]:
    """Return the API server's warnings that Helm or kubectl passes on."""
    return [line for line in complaints.splitlines() if "Warning" in line]


@contextlib.contextmanager
def cluster(count: int = 2) -> Iterator[Cluster]:
    """Run a cluster of so many nodes, built first where it is not. In the end the machine is as it was.

    One runs at a time: another one on this machine is waited for.
    """
    tools = bring()
    with (cache.home() / "running").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run = cache.home() / "run"
        nodes.remove_all(run)
        made = tuple(Running(node=node, count=count) for node in layout.nodes(run, count))
        try:
            yield _up(Cluster(run=run, tools=tools, nodes=made))
        finally:
            for running in reversed(made):
                running.kill()
            nodes.remove_all(run)


def _up(made: Cluster) -> Cluster:
    """Start everything, and wait until all of it is ready."""
    archives = images.archives()
    began = time.monotonic()
    programs.gather(layout.programs(made.run))
    (made.run / "home").mkdir()
    plain = [running.node for running in made.nodes]
    certificates.make(made.run, plain)
    control_groups.make(plain)
    nodes.make_network(plain)
    for running in made.nodes:
        running.start()
    _tell("nodes started", began)
    with ThreadPoolExecutor() as threads, _ended_on_error(made):
        importing = [threads.submit(_import, running, archives) for running in made.nodes]
        _wait(made, "kubectl", "get", "serviceaccount", "default")
        _tell("API server ready", began)
        for each in importing:
            each.result()
    _tell("images imported", began)
    made.kubectl("apply", "--filename", str(ADDONS))
    for running in made.nodes:
        _wait(made, "kubectl", "wait", "--for=condition=Ready", f"node/{running.node.name}")
    for name in ("coredns", "metrics-server"):
        rollout = ("rollout", "status", f"deployment/{name}", f"--timeout={PATIENCE_S:.0f}s")
        made.kubectl("--namespace", "kube-system", *rollout)
    _wait(made, "kubectl", "top", "nodes")
    _tell("cluster ready", began)
    return made


@contextlib.contextmanager
def _ended_on_error(made: Cluster) -> Iterator[None]:
    """End the nodes when the block fails or is interrupted, so that no thread waits for them any longer."""
    try:
        yield
    except BaseException:
        for running in made.nodes:
            running.kill()
        raise


def _wait(made: Cluster, *command: str) -> None:
    eventually_true(lambda: made.ran(*command).returncode == 0, within=PATIENCE_S)


def _import(running: Running, archives: list[Path]) -> None:
    """Import images into a node, and give that of the acker its second name."""
    socket = Path("/run/containerd/containerd.sock")
    eventually_true(lambda: _succeeds(running, "test", "-S", str(socket)), within=PATIENCE_S)
    for archive in archives:
        running.inside("ctr", "--namespace", "k8s.io", "images", "import", str(archive))
    running.inside("ctr", "--namespace", "k8s.io", "images", "tag", images.ACKER, images.NEXT_ACKER)


def _succeeds(running: Running, *command: str) -> bool:
    try:
        running.inside(*command)
    except RuntimeError:
        return False
    return True


def _tell(what: str, began: float) -> None:
    _log.info("%s after %.1f s", what, time.monotonic() - began)
