"""Builds and runs images with buildah, podman and runc, in a storage of its own that goes as a whole."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

PATIENCE_S = 600
SIZE = "6g"
"""Of the storage, at most. It lies in memory: there layers are quick to write, and to remove."""

_CONTAINERS = """\
[containers]
base_hosts_file = "{folder}/hosts"
default_ulimits = ["nofile=16384:16384", "nproc=4096:4096"]
cgroupns = "host"
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "{folder}/state"
lock_type = "file"
[network]
network_backend = "netavark"
"""
# runc: Debian's crun refuses a machine with both versions of cgroups. Limits of open files: podman's own cannot be set
# everywhere. With the state and locks of its own no other podman of this machine meets it, whatever that is doing.

_STORAGE = """\
[storage]
driver = "{driver}"
graphroot = "{folder}/store"
runroot = "{folder}/run"
"""


class Engine:
    """The tools, on images and containers in ``folder``; `close` removes all of them, and whatever is mounted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=700", "acker-image", str(folder)], check=True)
        driver = "overlay" if "overlay" in Path("/proc/filesystems").read_text().split() else "vfs"
        (folder / "storage.conf").write_text(_STORAGE.format(driver=driver, folder=folder))
        (folder / "containers.conf").write_text(_CONTAINERS.format(folder=folder))
        self.know({})

    def know(self, names: Mapping[str, str]) -> None:
        """Let containers that are made from now on know hosts, given by their names and addresses."""
        known = {"localhost": "127.0.0.1"} | dict(names)
        (self.folder / "hosts").write_text("".join(f"{address} {name}\n" for name, address in known.items()))

    def buildah(self, *arguments: str) -> str:
        return self.run("buildah", *arguments)

    def podman(self, *arguments: str, through: Sequence[str] = ()) -> str:
        """Run podman; ``through`` is put before it."""
        return self.run(*through, "podman", *arguments)

    def run(self, *command: str) -> str:
        """Run a tool to its end and give what it printed. If it fails nothing that it began goes on."""
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, env=self._environment(), stdout=pipe, stderr=pipe, text=True, start_new_session=True
        ) as tool:
            try:
                out, complaints = tool.communicate(timeout=PATIENCE_S)
                words = f"{' '.join(command)} ended with {tool.returncode}"
                assert tool.returncode == 0, f"{words}\n{out[-4000:]}{complaints[-4000:]}"
            except BaseException:
                _end_session(tool.pid)
                raise
        return out.strip()

    def close(self) -> None:
        """Remove containers and images, then what is still mounted, then the folder."""
        for command in (["podman", "rm", "--all", "--force", "--time", "0"], ["buildah", "rm", "--all"]):
            subprocess.run(command, env=self._environment(), capture_output=True, check=False)
        for mounted in _mounted_below(self.folder):
            subprocess.run(["umount", "--lazy", mounted], capture_output=True, check=False)
        shutil.rmtree(self.folder)

    def _environment(self) -> dict[str, str]:
        own = {"CONTAINERS_CONF": "containers.conf", "CONTAINERS_STORAGE_CONF": "storage.conf"}
        # Where no systemd runs nobody could ask the image's own health check from time to time.
        return (
            os.environ | {name: str(self.folder / file) for name, file in own.items()} | {"DISABLE_HC_SYSTEMD": "true"}
        )


def _end_session(session: int) -> None:
    """Kill all processes of a session, in whatever group: a step of a build may leave some behind."""
    for own in (int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()):
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(own) == session:
                os.kill(own, signal.SIGKILL)


def _mounted_below(folder: Path) -> list[str]:
    """Return what is mounted in a folder, the innermost first."""
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return sorted((place for place in mounted if Path(place).is_relative_to(folder)), reverse=True)
