"""A network namespace: a host of its own on this machine, without any way out. Needs root and iproute2."""

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator, Sequence

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def ip(*arguments: str) -> str:
    """Run `ip`; raises with what it complains about."""
    return output("ip", *arguments)


def output(*command: str, put_in: str | None = None) -> str:
    """Run a program to its end and give what it printed; raises with what it complains about."""
    ended = subprocess.run(command, capture_output=True, text=True, input=put_in, check=False)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command)}: {ended.stderr.strip() or ended.stdout.strip()}")
    return ended.stdout


class Namespace:
    """A network namespace with its loopback up; `close` removes it once nothing runs in it."""

    def __init__(self, name: str) -> None:
        self.name = name
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")

    @property
    def path(self) -> str:
        return f"/run/netns/{self.name}"

    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs another in here; nsenter becomes it, so that its pid is the other's own."""
        return ["nsenter", f"--net={self.path}", "--", *command]

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Sockets that this thread makes in the block belong to this namespace, and stay so."""
        here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(self.path, os.O_RDONLY)
        try:
            _enter(there)
            yield
        finally:
            _enter(here)
            os.close(here)
            os.close(there)

    def close(self) -> None:
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True, check=False)


def _enter(descriptor: int) -> None:
    if _libc.setns(descriptor, _CLONE_NEWNET):
        fault = ctypes.get_errno()
        raise OSError(fault, os.strerror(fault))
