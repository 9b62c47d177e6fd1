"""Hosts on one machine: network namespaces on a bridge without an uplink, to be cut off, slowed and made lossy.

Nothing of it touches the machine's own network: the bridge is in a namespace too, without an uplink, and the addresses
are those that RFC 2544 sets aside for benchmarks. The names carry the pid, so that runs do not meet. Needs root,
iproute2 and nftables.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.support.namespaces import Namespace, ip, output

NET = "198.18.7"
_LINK = Path(__file__).with_name("link.py")
_RULES = """
table bridge fault {
  set cut { type ipv4_addr . ipv4_addr; }
  set lossy { type ipv4_addr . ipv4_addr; }
  chain wire {
    type filter hook forward priority 0; policy accept;
    ip saddr . ip daddr @cut drop
    ip saddr . ip daddr @lossy numgen random mod 100 < 10 drop
  }
}
"""


class Host:
    """A host with an address, and the processes started on it."""

    def __init__(self, fabric: Namespace, name: str, number: int, *, shaped: bool) -> None:
        self.name = name
        self.address = f"{NET}.{number}"
        self.port = f"p{number}"
        self.namespace = Namespace(f"{fabric.name}-{name}")
        self._fabric = fabric
        self._processes: list[subprocess.Popen[bytes]] = []
        self._link: subprocess.Popen[str] | None = None
        if shaped:
            self._link = self._carried()
        else:
            ends = ("netns", fabric.name, "type", "veth", "peer", "name", "eth0", "netns", self.namespace.name)
            ip("link", "add", self.port, *ends)
        ip("-n", fabric.name, "link", "set", self.port, "master", "br0", "up")
        ip("-n", self.namespace.name, "addr", "add", f"{self.address}/24", "dev", "eth0")
        ip("-n", self.namespace.name, "link", "set", "eth0", "up")

    def start(self, command: Sequence[str], *, log: Path, folder: Path | None = None) -> "subprocess.Popen[bytes]":
        """Start a program here; it is ended with the host."""
        with log.open("ab") as out:
            process = subprocess.Popen(self.namespace.command(command), stdout=out, stderr=out, cwd=folder)
        self._processes.append(process)
        return process

    def freeze(self) -> None:
        """Stop all that runs here, as a long pause does: its connections stay, and nothing answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Tell all that runs here to end, and wait until it has."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """kill -9 all that runs here."""
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        self._signal(number)
        for process in self._processes:
            process.wait()
        self._processes.clear()

    def shape(self, *, delay_ms: float = 0, jitter_ms: float = 0, loss: float = 0) -> None:
        """Delay and lose what comes and goes, in each direction; ``loss`` is a share."""
        assert self._link is not None, f"{self.name} was made without a shaped link"
        assert self._link.stdin is not None
        told = {"delay": delay_ms / 1000, "jitter": jitter_ms / 1000, "loss": loss}
        self._link.stdin.write(json.dumps(told) + "\n")
        self._link.stdin.flush()

    def _signal(self, number: int) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(number)

    def _carried(self) -> "subprocess.Popen[str]":
        """Have a process carry the packets, which can be told to be slow."""
        ends = (self.namespace.path, "eth0", self._fabric.path, self.port)
        pipe = subprocess.PIPE
        link = subprocess.Popen([sys.executable, str(_LINK), *ends], stdin=pipe, stdout=pipe, text=True)
        assert link.stdout is not None
        assert link.stdout.readline() == "ready\n", "no link: is there a /dev/net/tun?"
        return link


class Network:
    """A bridge and its hosts."""

    def __init__(self, name: str, hosts: list[Host]) -> None:
        self.fabric = Namespace(name)
        self.hosts = hosts
        ip("-n", self.fabric.name, "link", "add", "br0", "type", "bridge", "stp_state", "0", "forward_delay", "0")
        ip("-n", self.fabric.name, "link", "set", "br0", "up")
        self._rule(_RULES)

    def host(self, name: str, *, shaped: bool = False) -> Host:
        """Add a host; ``shaped`` makes its link one that can be slow."""
        host = Host(self.fabric, name, len(self.hosts) + 1, shaped=shaped)
        self.hosts.append(host)
        return host

    def cut(self, some: Iterable[Host]) -> None:
        """Let whatever goes between some hosts and all others vanish, as behind a switch that is gone."""
        self._add("cut", set(some))

    def lose(self, some: Iterable[Host]) -> None:
        """Lose a tenth of what goes between some hosts and all others."""
        self._add("lossy", set(some))

    def heal(self) -> None:
        self._rule("flush set bridge fault cut\nflush set bridge fault lossy")

    def _add(self, name: str, some: set[Host]) -> None:
        pairs = [(one.address, other.address) for one in some for other in self.hosts if other not in some]
        both = ", ".join(f"{one} . {other}, {other} . {one}" for one, other in pairs)
        self._rule(f"add element bridge fault {name} {{ {both} }}")

    def _rule(self, text: str) -> None:
        output(*self.fabric.command(("nft", "-f", "-")), put_in=text)


@contextlib.contextmanager
def network() -> Iterator[Network]:
    """Return a network that is gone, with all that runs on it, when the block is left, also while it is being made."""
    name = f"acker{os.getpid()}"
    hosts: list[Host] = []
    try:
        yield Network(name, hosts)
    finally:
        for host in hosts:
            host.kill()
        for namespace in output("ip", "netns", "list").split():
            if namespace == name or namespace.startswith(f"{name}-"):
                _clear(namespace)


def _clear(namespace: str) -> None:
    """End all that still runs in a namespace, and remove it."""
    while pids := {int(pid) for pid in ip("netns", "pids", namespace).split()} - {os.getpid()}:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    ip("netns", "del", namespace)
