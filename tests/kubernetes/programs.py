"""Builds the programs of a cluster with Go from the modules in ``go``, and unpacks those that Debian has."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.kubernetes import cache

GO = Path(__file__).parent / "go"
PARTS = ("etcd", "kubectl", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet")
"""What the program of go/kubernetes is, by the name that it is called by."""

SERVERS = ("pause", "coredns", "metrics-server")
"""Programs that run in pods; each is an image of its own."""

DEBIAN = ("containerd", "containernetworking-plugins")
BUILD_S = 7200
"""How long a build may take; what Go has compiled is kept, so another attempt goes on from there."""

_VERSION = "k8s.io/component-base/version"
_KUBERNETES = {
    "gitVersion": "v1.34.4",
    "gitMajor": "1",
    "gitMinor": "34",
    "gitTreeState": "clean",
    "buildDate": "2026-02-10T12:53:36Z",
}


def built(name: str) -> Path:
    """Return the program of the module go/``name``, built once for its files."""
    sources = sorted((GO / name).iterdir())
    return cache.kept(name, (path.read_bytes() for path in sources), lambda folder: _build(name, folder)) / name


def unpacked() -> Path:
    """Return the folder with Debian's containerd and CNI plugins, which are not installed: that would start one."""
    return cache.kept("debian", (name.encode() for name in DEBIAN), _unpack) / "unpacked"


def gather(folder: Path) -> None:
    """Link all programs that nodes run into a folder."""
    folder.mkdir(parents=True)
    for part in PARTS:
        (folder / part).symlink_to(built("kubernetes"))
    for program in (unpacked() / "usr/bin").iterdir():
        (folder / program.name).symlink_to(program)


def plugins() -> Path:
    """Return the folder of the CNI plugins."""
    return unpacked() / "usr/lib/cni"


def _build(name: str, folder: Path) -> None:
    told = "-s -w"
    if name == "kubernetes":
        told += "".join(f" -X {_VERSION}.{key}={value}" for key, value in _KUBERNETES.items())
    command = ["env", "CGO_ENABLED=0", "GOTOOLCHAIN=local", "go", "build", "-trimpath", "-buildvcs=false"]
    _run(GO / name, [*command, "-ldflags", told, "-o", str(folder / name), "."])


def _unpack(folder: Path) -> None:
    debs = folder / "debs"
    shutil.rmtree(debs, ignore_errors=True)
    debs.mkdir()
    download = ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", *DEBIAN]
    try:
        _run(debs, download)
    except subprocess.CalledProcessError:  # a machine made anew has no lists of packages, or old ones
        _run(debs, ["apt-get", "update", "-qq"])
        _run(debs, download)
    for package in debs.glob("*.deb"):
        _run(debs, ["dpkg", "-x", package.name, str(folder / "unpacked")])
    shutil.rmtree(debs)


def _run(folder: Path, command: Sequence[str]) -> None:
    subprocess.run(command, cwd=folder, check=True, timeout=BUILD_S)
