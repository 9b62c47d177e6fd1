"""Starts the nodes of a cluster as namespaces of this machine, and ends them."""

import contextlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.kubernetes import control_groups, layout, node_files
from tests.kubernetes.layout import Node
from tests.support.namespaces import ip, output
from tests.support.waiting import eventually_true

ROOT = Path(__file__).parents[2]
NAMESPACES = ("--pid", "--mount-proc", "--mount", "--net", "--uts", "--ipc")
STARTS_S = 120

# A process that is to become a node's puts itself into the groups that are named before the --.
_GROUPED = 'while [ "$1" != -- ]; do echo 0 > "$1/cgroup.procs"; shift; done; shift; exec "$@"'


@dataclass(slots=True, kw_only=True)
class Running:
    """A node that runs; it ends with the thread that started it, however that ends."""

    node: Node
    count: int
    _process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    def start(self) -> None:
        """Start it, with the state that it had before, and connect it to the bridge."""
        node = self.node
        control_groups.make([node])
        node_files.write(node)
        groups = [str(group) for group in control_groups.of_node(node)]
        first = [
            sys.executable,
            "-m",
            "tests.kubernetes.first_process",
            str(node.run),
            str(node.number),
            str(self.count),
        ]
        apart = ["setpriv", "--pdeathsig", "KILL", "unshare", "--fork", "--kill-child", *NAMESPACES, *first]
        with (node.folder / "first_process.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", _GROUPED, "sh", *groups, "--", *apart],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                start_new_session=True,
            )
        eventually_true(lambda: _namespace(self._outer()) != _namespace(os.getpid()), within=STARTS_S)
        ip("link", "add", node.link, "type", "veth", "peer", "name", "eth0", "netns", str(self._outer()))
        ip("link", "set", node.link, "master", layout.BRIDGE, "up")

    def inside(self, *command: str) -> str:
        """Run a program in the node's namespaces, with its programs on the PATH, and return what it printed."""
        path = f"PATH={layout.programs(self.node.run)}:{os.environ['PATH']}:/usr/sbin:/sbin"
        enter = ["nsenter", f"--target={self._inner()}", "--mount", "--pid", "--net", "--uts", "--ipc"]
        return output(*enter, "--", "env", path, *command)

    def kill(self) -> None:
        """Kill all that runs on it at once, as when its power goes; its state stays."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process = None
        remove_link(self.node.link)
        eventually_true(lambda: control_groups.remove(self.node.cgroup), within=STARTS_S)

    def _outer(self) -> int:
        """Return the process that made the namespaces, except that of pids."""
        assert self._process is not None, f"{self.node.name} does not run"
        assert self._process.poll() is None, f"{self.node.name} has ended: see {self.node.folder}/first_process.log"
        return self._process.pid

    def _inner(self) -> int:
        """Return the first process, by its number outside."""
        outer = self._outer()
        children = Path(f"/proc/{outer}/task/{outer}/children")
        eventually_true(children.read_text, within=STARTS_S)
        return int(children.read_text().split()[0])


def make_network(nodes: list[Node]) -> None:
    """Make the bridge of the nodes, and the ways to their pods and to the Services."""
    ip("link", "add", layout.BRIDGE, "type", "bridge")
    ip("address", "add", f"{layout.HOST}/24", "dev", layout.BRIDGE)
    ip("link", "set", layout.BRIDGE, "up")
    for node in nodes:
        ip("route", "add", node.pods, "via", node.address)
    ip("route", "add", layout.SERVICES, "via", nodes[0].address)


def remove_all(run: Path) -> None:
    """Remove what is left of a cluster whose nodes have ended, also of one whose test was killed."""
    eventually_true(lambda: control_groups.remove(layout.CGROUP), within=STARTS_S)
    for link in (path.name for path in Path("/sys/class/net").glob(f"{layout.BRIDGE}*")):
        remove_link(link)
    shutil.rmtree(run, ignore_errors=True)


def remove_link(name: str) -> None:
    """Remove an interface; the kernel may have done it, and takes a while after a namespace's last process."""
    with contextlib.suppress(RuntimeError):
        ip("link", "delete", name)


def _namespace(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except FileNotFoundError:
        return _namespace(os.getpid())
