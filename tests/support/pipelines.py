"""Runs a pipeline of the examples as a user does."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WITHIN_S = 960


def run_pipeline(name: str, *options: str) -> tuple[int, str]:
    """Run it to its end, and return its exit code and what it said."""
    command = [sys.executable, "-m", f"examples.{name}", *options]
    pipeline = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
    with pipeline:
        try:
            said, _ = pipeline.communicate(timeout=WITHIN_S)
        finally:
            pipeline.terminate()
    return pipeline.returncode, said
