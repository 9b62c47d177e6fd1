"""A real NATS server with JetStream: built by Go from the module that go.mod pins, and started once."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest

from examples.support.ports import free_port
from examples.support.processes import processes_in
from tests.integrations.conftest import client, process, topology

__all__ = ["client", "process", "topology"]

SERVER = "github.com/nats-io/nats-server/v2"
BUILD_S = 900
"""How long the first build may take; Go keeps what it has compiled."""


@pytest.fixture(scope="session")
def nats_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A NATS server for the whole run."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go 1.26 is not installed here, which builds the server")
    folder, port = tmp_path_factory.mktemp("nats"), free_port()
    program, here = folder / "nats-server", Path(__file__).parent
    subprocess.run([go, "build", "-o", str(program), SERVER], cwd=here, check=True, timeout=BUILD_S)
    url = f"nats://127.0.0.1:{port}"
    command = [str(program), "--addr", "127.0.0.1", "--port", str(port), "--jetstream", "--store_dir", str(folder)]
    with processes_in(folder) as processes:
        processes.start("server", command).wait_until(lambda: asyncio.run(_answers(url)))
        yield url


async def _answers(url: str) -> bool:
    try:
        connection = await nats.connect(url, allow_reconnect=False, connect_timeout=1)
    except (OSError, nats.errors.Error):
        return False
    await connection.close()
    return True
