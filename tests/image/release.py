"""A release whose pods run on hosts of their own, which find each other by the names of its Services."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.network import Host, network
from tests.deploy.manifests import Object, matches
from tests.image.engine import Engine
from tests.image.kubelet import Kept, Pod, kept_by, pods_of
from tests.image.running import Container, played, wait_for


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What the chart rendered, one pod of each workload, with the hosts they run on."""

    engine: Engine
    folder: Path
    pods: dict[str, Pod]
    kept: Kept
    hosts: dict[str, Host]
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def play(self, name: str) -> Container:
        """Start a pod and give its container, once its probes pass; they are asked from where this thread is."""
        pod, host = self.pods[name], self.hosts[name]
        folder = self.folder / name
        folder.mkdir()
        container = self._stack.enter_context(played(self.engine, pod, host.namespace, self.kept, folder))
        wait_for(pod, container, address=host.address)
        return container


@contextlib.contextmanager
def release(engine: Engine, objects: list[Object], folder: Path, *others: str) -> Iterator[Release]:
    """Return the hosts of a release that is rendered, and of ``others`` that are no pods of it; nothing runs yet.

    In the block, sockets of this thread are made on one more host: that of whoever calls the Services.
    """
    pods = pods_of(objects)
    with network() as net, contextlib.ExitStack() as stack:
        hosts = {name: net.host(f"h{number}") for number, name in enumerate([*pods, *others])}
        engine.know(_services(objects, pods, hosts) | {name: hosts[name].address for name in others})
        stack.enter_context(net.host("caller").namespace.inside())
        yield Release(engine=engine, folder=folder, pods=pods, kept=kept_by(objects), hosts=hosts, _stack=stack)


def _services(objects: list[Object], pods: dict[str, Pod], hosts: dict[str, Host]) -> dict[str, str]:
    """Return where each Service leads; it leads to a port of the same number, so that an address is all it takes."""
    services = [some for some in objects if some["kind"] == "Service"]
    found = {}
    for some in services:
        (name,) = [name for name, pod in pods.items() if matches(some["spec"]["selector"], pod.labels)]
        assert all(port["port"] == pods[name].ports[port["targetPort"]] for port in some["spec"]["ports"])
        found[some["metadata"]["name"]] = hosts[name].address
    return found
