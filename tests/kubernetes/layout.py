"""Where everything of a cluster is: the names, addresses and folders of its nodes."""

import os
from dataclasses import dataclass
from pathlib import Path

CGROUP = "acker-kubernetes"
BRIDGE = "ackerk8s"
HOST = "10.77.0.1"
"""This machine on the bridge of the nodes."""

PODS = "10.78.0.0/16"
SERVICES = "10.79.0.0/16"
API_SERVICE = "10.79.0.1"
DNS_SERVICE = "10.79.0.10"
DOMAIN = "cluster.local"
CORES = 2
"""What a node has for pods, however many this machine has."""

CONTROL_GROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of the cluster in ``run``; numbers begin with 1, which has the control plane."""

    run: Path
    number: int

    @property
    def name(self) -> str:
        """Its host name, and its name in the cluster."""
        return f"node{self.number}"

    @property
    def address(self) -> str:
        """Its address on the bridge."""
        return f"10.77.0.{10 + self.number}"

    @property
    def pods(self) -> str:
        """The addresses of its pods."""
        return f"10.78.{self.number}.0/24"

    @property
    def zone(self) -> str:
        """The zone that it is labelled with."""
        return f"zone{self.number}"

    @property
    def link(self) -> str:
        """This machine's end of its link."""
        return f"{BRIDGE}-{self.number}"

    @property
    def cgroup(self) -> str:
        """Its control group, below each controller."""
        return f"{CGROUP}/{self.name}"

    @property
    def folder(self) -> Path:
        """Its files; ``lib``, ``log`` and ``sysctl`` in it take the place of the machine's own."""
        return self.run / self.name

    @property
    def has_control_plane(self) -> bool:
        """Whether etcd, the API server, the scheduler and the controllers run on it."""
        return self.number == 1


def nodes(run: Path, count: int) -> list[Node]:
    """Return the nodes of a cluster."""
    return [Node(run=run, number=number) for number in range(1, count + 1)]


def programs(run: Path) -> Path:
    """Return the folder with all programs of a cluster."""
    return run / "bin"


def keys(run: Path) -> Path:
    """Return the folder of certificates and kubeconfigs."""
    return run / "keys"


def api_server(run: Path) -> str:
    """Return the address of the API server."""
    return f"https://{Node(run=run, number=1).address}:6443"


def machine_cores() -> int:
    """Return how many cores the kubelet finds."""
    return os.cpu_count() or CORES
