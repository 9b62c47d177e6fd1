"""Runs Storm itself: a spout, a split and ten counts for each root, between two workers."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.peers.install import TOOLS

MISSING = "Storm is not installed: make bench-long GROUP=storm installs it (it needs Maven and Java 17)"
JAR = "target/storm-words.jar"
SECONDS, WARM_UP_S = 8, 8
WORKERS, ACKERS, PENDING = 2, 1, 1_000
HEAP = "-Xmx2g"
WITHIN_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a run came to: CPU µs of the whole JVM for a root, and roots a second."""

    cpu_us: float
    rate: float


def program(folder: Path = TOOLS / "storm") -> Path | None:
    """Give the folder where Storm is installed, None where it is not."""
    return folder if (folder / JAR).exists() else None


def run(folder: Path, *, seconds: int = SECONDS, warm_up_s: int = WARM_UP_S) -> Ran:
    """Run the topology for so many seconds after its warm-up."""
    classes = f"{folder / JAR}:{folder / 'target' / 'lib'}/*"
    numbers = (warm_up_s, seconds, WORKERS, ACKERS, PENDING)
    command = ["java", HEAP, "-cp", classes, "bench.Words", *map(str, numbers)]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=WITHIN_S + seconds)
    result = json.loads(out.stdout.strip().splitlines()[-1])
    if not result["roots"]:
        raise RuntimeError(f"no root was acked: {out.stderr[-500:]}")
    return Ran(cpu_us=result["cpu_s"] / result["roots"] * 1e6, rate=result["roots"] / result["wall_s"])
