"""The first process of a node, in namespaces of its own: it prepares them, starts the node's programs and keeps them.

Called with the folder of the cluster, the number of the node and how many nodes there are. Its end is the node's.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.kubernetes import layout, node_files
from tests.kubernetes.layout import Node

AGAIN_S = 2.0
"""After so long a program that has ended is started again, as systemd would."""


def main(run: str, number: str, count: str) -> None:
    """Run the node until the process is killed."""
    others = layout.nodes(Path(run), int(count))
    node = others.pop(int(number) - 1)
    socket.sethostname(node.name)
    _take_folders(node)
    _join_network(node, others)
    os.environ["PATH"] = f"{layout.programs(node.run)}:{os.environ['PATH']}:/usr/sbin:/sbin"
    os.environ["HOME"] = "/run"
    node_programs = node_files.commands(node)
    _Kept(node, node_programs | (node_files.control_plane(node) if node.has_control_plane else {})).run()


def _take_folders(node: Node) -> None:
    """Put the node's own folders in the place of the machine's, and what the kubelet reads of sysctls."""
    _do("mount", "--make-rshared", "/")
    _do("mount", "--bind", f"{node.folder}/lib", "/var/lib")
    _do("mount", "--bind", f"{node.folder}/log", "/var/log")
    _do("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    for name in node_files.SYSCTLS:
        _do("mount", "--bind", f"{node.folder}/sysctl/{name}", f"/proc/sys/{name.replace('.', '/')}")


def _join_network(node: Node, others: list[Node]) -> None:
    """Take the interface that was put in here, and find the other nodes' pods."""
    _do("ip", "link", "set", "lo", "up")
    while subprocess.run(["ip", "link", "show", "eth0"], capture_output=True, check=False).returncode:
        time.sleep(0.1)
    _do("ip", "address", "add", f"{node.address}/24", "dev", "eth0")
    _do("ip", "link", "set", "eth0", "up")
    _do("ip", "route", "add", "default", "via", layout.HOST)
    for other in others:
        _do("ip", "route", "add", other.pods, "via", other.address)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


class _Kept:
    """The programs of a node: each is started again when it ends, and what has lost its parent is reaped."""

    def __init__(self, node: Node, commands: dict[str, list[str]]) -> None:
        self._node = node
        self._commands = commands
        self._pids: dict[int, str] = {}
        self._due = dict.fromkeys(commands, 0.0)

    def run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        while True:
            for name in [name for name, at in self._due.items() if at <= time.monotonic()]:
                self._start(name)
            signal.sigtimedwait([signal.SIGCHLD], 0.5)
            self._reap()

    def _start(self, name: str) -> None:
        del self._due[name]
        log = self._node.folder / f"{name}.log"
        out = (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        files = ((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), out, (os.POSIX_SPAWN_DUP2, 1, 2))
        command = self._commands[name]
        pid = os.posix_spawnp(command[0], command, os.environ, file_actions=files, setsid=True, setsigmask=[])
        self._pids[pid] = name

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if name := self._pids.pop(pid, None):
                self._due[name] = time.monotonic() + AGAIN_S
                with (self._node.folder / f"{name}.log").open("a") as log:
                    log.write(f"ended with {os.waitstatus_to_exitcode(status)}, and is started again\n")


def _do(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
