"""What a machine needs to run a cluster."""

import os
import shutil
from pathlib import Path

from tests.kubernetes import control_groups

PROGRAMS = ("go", "runc", "nft", "ip", "setpriv", "unshare", "nsenter", "apt-get", "dpkg", "git")
OF_IMAGES = ("buildah", "podman", "mmdebstrap")
OF_HELM = ("npm", "node")
MEMORY_GIB = 3


def missing() -> str:
    """Describe what this machine lacks; empty if nothing."""
    absent = [name for name in PROGRAMS + OF_IMAGES + OF_HELM if shutil.which(name) is None]
    if os.geteuid() != 0:
        return "only root can make namespaces and control groups"
    if absent:
        return f"not installed: {', '.join(absent)}"
    if not control_groups.controllers():
        return "this machine has control groups of version 2 alone; the nodes are made of those of version 1"
    if available_gib() < MEMORY_GIB:
        return f"{available_gib():.1f} GiB of memory are available; a cluster takes {MEMORY_GIB}"
    return ""


def available_gib() -> float:
    """Return how much memory new programs could take."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    (found,) = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found) / 2**20
