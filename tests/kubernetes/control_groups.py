"""The control groups of a cluster, in which its processes are counted and limited. Of version 1."""

import contextlib
from collections.abc import Iterable
from pathlib import Path

from tests.kubernetes.layout import CGROUP, CONTROL_GROUPS, Node

SHARES = 512
"""The cluster's processor time on a busy machine, beside the 1024 of every other group."""


def controllers() -> list[Path]:
    """Return the folder of each controller; none where there are control groups of version 2 alone."""
    if (CONTROL_GROUPS / "cgroup.controllers").exists():
        return []
    return sorted(path for path in CONTROL_GROUPS.iterdir() if path.is_dir() and not path.is_symlink())


def make(nodes: Iterable[Node]) -> None:
    """Make the groups of nodes; what is there stays."""
    for controller in controllers():
        for name in (CGROUP, *(each for node in nodes for each in (node.cgroup, f"{node.cgroup}/system"))):
            group = controller / name
            group.mkdir(exist_ok=True)
            for file in ("cpuset.cpus", "cpuset.mems"):
                if (group / file).exists():
                    (group / file).write_text((controller / file).read_text())
        if (controller / CGROUP / "cpu.shares").exists():
            (controller / CGROUP / "cpu.shares").write_text(str(SHARES))


def of_node(node: Node) -> list[Path]:
    """Return the groups that a node's own processes begin in."""
    return [controller / node.cgroup / "system" for controller in controllers()]


def remove(name: str) -> bool:
    """Remove the groups ``name`` and all below them; False as long as a process is left in one."""
    for controller in controllers():
        group = controller / name
        for below in sorted(group.rglob("*/"), reverse=True):
            with contextlib.suppress(OSError):
                below.rmdir()
        with contextlib.suppress(OSError):
            group.rmdir()
    return not any((controller / name).exists() for controller in controllers())
