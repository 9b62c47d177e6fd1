"""Runs Storm itself between two workers: a spout, a split and ten counts for each root; and jobs with faults."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from bench.peers.install import TOOLS

JAR = "target/storm-words.jar"
SECONDS, WARM_UP_S = 6, 6
FAULTY_TIMEOUT_S = 10
WORKERS, ACKERS, PENDING = 2, 1, 1_000
HEAP = "-Xmx2g"
WITHIN_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a run came to: CPU µs of the whole JVM for a root, and roots a second."""

    cpu_us: float
    rate: float


def program(folder: Path = TOOLS / "storm") -> Path | None:
    """Return the folder where Storm is installed, None where it is not."""
    return folder if (folder / JAR).exists() else None


def run(folder: Path, *, seconds: int = SECONDS, warm_up_s: int = WARM_UP_S) -> Ran:
    """Run the topology for so many seconds after its warm-up."""
    numbers = (warm_up_s, seconds, WORKERS, ACKERS, PENDING)
    result = _java(folder, "bench.Words", numbers, within_s=WITHIN_S + seconds)
    if not result["roots"]:
        raise RuntimeError("no root was acked")
    return Ran(cpu_us=result["cpu_s"] / result["roots"] * 1e6, rate=result["roots"] / result["wall_s"])


def faults(folder: Path, *, roots: int, tasks: int) -> dict[str, float]:
    """Stop one of two workers, and let a tuple of a hundred be worked on twice, and return what Storm reported.

    ``reported`` and ``early`` are roots, ``repeated`` and ``replayed`` count each further report or emit.
    """
    return _java(folder, "bench.Faults", (roots, tasks, FAULTY_TIMEOUT_S, WITHIN_S), within_s=2 * WITHIN_S)


def _java(folder: Path, name: str, numbers: tuple[int, ...], *, within_s: float) -> dict[str, float]:
    """Run a class, and return the line of JSON that it prints last."""
    classes = f"{folder / JAR}:{folder / 'target' / 'lib'}/*"
    command = ["java", HEAP, "-cp", classes, name, *map(str, numbers)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=within_s)
    if ended.returncode or not ended.stdout.strip():
        raise RuntimeError(f"{name} ended with {ended.returncode}: {ended.stderr[-500:]}")
    return cast("dict[str, float]", json.loads(ended.stdout.strip().splitlines()[-1]))
