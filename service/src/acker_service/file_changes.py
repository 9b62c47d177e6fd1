"""Tells that files have changed, without reading them."""

import logging
from collections.abc import Callable
from pathlib import Path

from acker_service.background import periodically

CHECK_INTERVAL_S = 1.0
"""How often files are checked for changes."""


async def watch(check: Callable[[], None], *, name: str, log: logging.Logger) -> None:
    """Run ``check``, which reads files again if they have changed, every second until cancelled."""

    async def step() -> None:
        check()

    await periodically(step, interval=CHECK_INTERVAL_S, delay=CHECK_INTERVAL_S, name=name, log=log)


def fingerprint(*paths: Path) -> object:
    """Return a value that differs once one of the files has been written, replaced or removed."""
    return tuple(_fingerprint(path) for path in paths)


def _fingerprint(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
