"""Carries packets between two network namespaces, slowly if told to: what `netem` does, where the kernel lacks it.

    link.py NAMESPACE DEVICE NAMESPACE DEVICE

It makes a TAP device in each, says `ready`, and takes settings as lines of JSON, ``{"delay": s, "jitter": s, "loss":
share}``. They hold in each direction. It ends with its standard input. Stands by itself: it is run as a program.
"""

import contextlib
import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import struct
import sys
import time

_TUNSETIFF, _TAP, _NO_INFO = 0x400454CA, 2, 0x1000
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def tap(namespace: str, name: str) -> int:
    """Make a TAP device in a namespace, and stay there."""
    descriptor = os.open(namespace, os.O_RDONLY)
    if _libc.setns(descriptor, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), namespace)
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TAP | _NO_INFO))
    return device


class Link:
    """Frames on their way, the next due first; none overtakes another of its direction."""

    def __init__(self, one: int, other: int) -> None:
        self._to = {one: other, other: one}
        self._last = {one: 0.0, other: 0.0}
        self._settings = {"delay": 0.0, "jitter": 0.0, "loss": 0.0}
        self._under_way: list[tuple[float, int, int, bytes]] = []
        self._taken = 0

    def carry(self) -> None:
        """Carry until there is no more to be told."""
        poll = select.poll()
        for descriptor in (*self._to, sys.stdin.fileno()):
            poll.register(descriptor, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll(self._until_next_ms()):
                if descriptor in self._to:
                    self._take(descriptor)
                elif not self._is_told():
                    return
            self._deliver()

    def _until_next_ms(self) -> float | None:
        return max(0.0, (self._under_way[0][0] - time.monotonic()) * 1000) if self._under_way else None

    def _is_told(self) -> bool:
        line = sys.stdin.readline()
        self._settings.update(json.loads(line or "{}"))
        return line != ""

    def _take(self, device: int) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in range(64):
                frame = os.read(device, 65536)
                if random.random() >= self._settings["loss"]:
                    self._send_off(device, frame)

    def _send_off(self, device: int, frame: bytes) -> None:
        due = time.monotonic() + self._settings["delay"] + random.uniform(0, self._settings["jitter"])
        self._last[device] = due = max(due, self._last[device])
        self._taken += 1
        heapq.heappush(self._under_way, (due, self._taken, self._to[device], frame))

    def _deliver(self) -> None:
        now = time.monotonic()
        while self._under_way and self._under_way[0][0] <= now:
            _, _, device, frame = heapq.heappop(self._under_way)
            with contextlib.suppress(OSError):  # a full queue loses it, as a wire would
                os.write(device, frame)


def main() -> None:
    """Carry between the devices that the arguments name."""
    link = Link(tap(*sys.argv[1:3]), tap(*sys.argv[3:5]))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    link.carry()


if __name__ == "__main__":
    main()
