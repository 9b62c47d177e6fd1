"""What a cluster could change of the machine that it runs on."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.kubernetes import cache
from tests.kubernetes.layout import CONTROL_GROUPS
from tests.support.namespaces import output

FOLDERS = ("/etc", "/opt", "/usr/libexec", "/var/lib", "/var/log", "/root")
"""Where the programs of a node write elsewhere. Only what lies directly in them is listed."""

_COUNTERS = ("kernel/ns_last_pid", "fs/quota/syncs", "kernel/random", "fs/binfmt_misc")
"""Files below /proc/sys that change by themselves, or that reading changes."""


def state() -> dict[str, set[str]]:
    """Return all of it, by its kind."""
    return {
        "interfaces": set(output("ip", "-brief", "link").splitlines()),
        "routes": set(output("ip", "route", "show", "table", "all").splitlines()),
        "rules of nftables": set(output("nft", "list", "tables").splitlines()),
        "mounts": {" ".join(line.split()[:4]) for line in Path("/proc/self/mounts").read_text().splitlines()},
        "control groups": {str(group) for group in CONTROL_GROUPS.glob("*/*") if group.is_dir()},
        "sysctls": set(_sysctls()),
        "processes": set(_processes()),
        "folders": {str(path) for folder in FOLDERS if Path(folder).is_dir() for path in Path(folder).iterdir()},
        "kept": {path.name for path in cache.home().iterdir()},
    }


def difference(before: dict[str, set[str]], after: dict[str, set[str]]) -> dict[str, list[str]]:
    """Return what is new or gone, by its kind; kinds that are as they were are left out."""
    return {kind: sorted(before[kind] ^ after[kind]) for kind in before if before[kind] != after[kind]}


def _sysctls() -> Iterator[str]:
    """Yield what can be set and read, with its value."""
    root = Path("/proc/sys")
    for folder, _, files in os.walk(root):
        for path in (Path(folder) / name for name in files):
            name = str(path.relative_to(root))
            if path.stat().st_mode & 0o222 and not name.startswith(_COUNTERS):
                try:
                    yield f"{name}={path.read_text().strip()}"
                except (OSError, UnicodeDecodeError):
                    continue


def _processes() -> Iterator[str]:
    """Yield the processes that belong to a cluster: those whose command names one of its folders, or is a part."""
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        if any(word in line for word in (str(cache.home()), "tests.kubernetes.first_process", "kube-", "containerd")):
            yield line
