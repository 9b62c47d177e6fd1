"""Starts an acker: ``acker serve`` with the embedded store, on a free port, its data in a folder."""

import contextlib
import sys
from pathlib import Path

import httpx
from acker_client import Acker

from examples.support.ports import free_port
from examples.support.processes import Processes


def start_acker(processes: Processes, data_dir: Path, *more: str) -> str:
    """Start an acker, with more options if need be, and wait until it is ready; give its address. Raises `Died`."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    options = ["--port", str(port), "--data-dir", str(data_dir), *more]
    acker = processes.start(
        "acker", [sys.executable, "-m", "acker_service", "serve", "--shutdown-drain-s", "0", *options]
    )
    acker.wait_until(lambda: _is_ready(url))
    return url


def create_topology(
    acker: str,
    topology: str,
    *,
    message_timeout: float | None = None,
    dedupe_window: float | None = None,
    retention: float | None = None,
    max_spout_pending: int | None = None,
) -> None:
    """Create a topology; times are in seconds, and None keeps the default."""
    with Acker(acker) as client:
        client.topologies.create(
            topology,
            message_timeout=message_timeout,
            dedupe_window=dedupe_window,
            retention=retention,
            max_spout_pending=max_spout_pending,
        )


def count_pending(acker: str, topology: str) -> int:
    """Count the pending roots of a topology."""
    with Acker(acker) as client:
        return client.topologies.get(topology).pending


def _is_ready(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{url}/readyz", trust_env=False).is_success
    return False
