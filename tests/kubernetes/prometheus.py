"""Runs a Prometheus on this machine that scrapes the replicas of a release, as the chart's PodMonitor asks for."""

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from examples.support.ports import free_port
from tests.deploy.tools import Tools
from tests.kubernetes.releases import READY_S, Release
from tests.support.waiting import eventually_true

INSTANCE = "app.kubernetes.io/instance"
INTERVAL = "1s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prometheus:
    """One that runs."""

    url: str

    def values(self, query: str) -> list[float]:
        """Return the value of each series that a query gives now."""
        answer = httpx.get(f"{self.url}/api/v1/query", params={"query": query}, trust_env=False, timeout=60)
        answer.raise_for_status()
        return [float(each["value"][1]) for each in answer.json()["data"]["result"]]


@contextlib.contextmanager
def scraping(made: Release, tools: Tools, folder: Path) -> Iterator[Prometheus]:
    """A Prometheus with its data in a folder, for as long as the block runs."""
    targets = [_target(pod) for component in ("api", "worker") for pod in made.ready_pods(component)]
    jobs = [{"job_name": "acker", "static_configs": targets}]
    config = folder / "prometheus.yaml"
    config.write_text(yaml.safe_dump({"global": {"scrape_interval": INTERVAL}, "scrape_configs": jobs}))
    address = f"127.0.0.1:{free_port()}"
    program = (tools.folder / "bin/promtool").resolve().with_name("prometheus")  # Debian has both in one package
    options = (f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}")
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen([program, *options], stdout=log, stderr=log, cwd=folder)
    try:
        running = Prometheus(url=f"http://{address}")
        eventually_true(lambda: _is_ready(running.url), within=READY_S)
        yield running
    finally:
        process.terminate()
        process.wait()


def _target(pod: dict[str, Any]) -> dict[str, Any]:
    """Describe a replica as Prometheus's operator does for a PodMonitor that names the label of the instance."""
    metadata = pod["metadata"]
    instance = {INSTANCE.replace(".", "_").replace("/", "_"): metadata["labels"][INSTANCE]}
    labels = {"namespace": metadata["namespace"], "pod": metadata["name"]} | instance
    return {"targets": [f"{pod['status']['podIP']}:8700"], "labels": labels}


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready", trust_env=False).is_success
    except httpx.HTTPError:
        return False
