"""A real OpenTelemetry Collector that samples at the tail: built by Go from main.go, and started for each test."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from examples.support.ports import free_port
from examples.support.processes import processes_in
from tests.integrations.conftest import client, process, topology
from tests.support.otlp import Receiver, receiving

__all__ = ["client", "process", "topology"]

BUILD_S = 1500
"""How long the first build may take; Go keeps what it has compiled."""

PAGE = Path(__file__).parents[2] / "docs" / "opentelemetry.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """A collector that runs: spans go to ``endpoint``, and those that it samples arrive in ``sampled``."""

    endpoint: str
    sampled: Receiver


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of the collector."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go 1.26 is not installed here, which builds the collector")
    built = tmp_path_factory.mktemp("collector") / "collector"
    subprocess.run([go, "build", "-o", str(built), "."], cwd=Path(__file__).parent, check=True, timeout=BUILD_S)
    return built


@pytest.fixture
def collector(program: Path, tmp_path: Path) -> Iterator[Collector]:
    """A collector as docs/opentelemetry.md configures it, without the share of acked roots that it keeps by chance."""
    port, configuration = free_port(), tmp_path / "collector.yaml"
    with receiving() as sampled, processes_in(tmp_path) as processes:
        configuration.write_text(yaml.safe_dump(_configuration(port, sampled.endpoint)))
        started = processes.start("collector", [str(program), "--config", f"file:{configuration}"])
        started.wait_until(lambda: _answers(port))
        yield Collector(endpoint=f"http://127.0.0.1:{port}/v1/traces", sampled=sampled)


def _configuration(port: int, to: str) -> dict[str, Any]:
    [block] = re.findall(r"^```yaml\n(processors:.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    found = yaml.safe_load(block)
    policies = found["processors"]["tail_sampling"]["policies"]
    policies[:] = [policy for policy in policies if policy["type"] != "probabilistic"]
    pipeline = {"receivers": ["otlp"], "processors": ["tail_sampling"], "exporters": ["otlp_http"]}
    return {
        **found,
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
        "exporters": {"otlp_http": {"traces_endpoint": to}},
        "service": {"telemetry": {"metrics": {"level": "none"}}, "pipelines": {"traces": pipeline}},
    }


def _answers(port: int) -> bool:
    try:
        return httpx.post(f"http://127.0.0.1:{port}/v1/traces", json={}, trust_env=False).is_success
    except httpx.TransportError:
        return False
