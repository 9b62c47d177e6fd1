"""Describes the machine of a measurement for its readers."""

import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

from acker_service.redis.embedded import find_program

from bench import baseline

PACKAGES = ("fastapi", "uvicorn", "uvloop", "httptools", "redis", "hiredis", "numpy", "msgspec")


def machine() -> dict[str, str]:
    """Tell its processors and memory, how busy it was, and the versions of all that matters; no names, no paths."""
    store = subprocess.run([find_program(), "--version"], capture_output=True, text=True, check=True).stdout.split()
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return {
        "commit": baseline.head(),
        "processors": f"{os.cpu_count()} of {_processor()}",
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB",
        "load before": f"{os.getloadavg()[0]:.1f}",
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "store": f"{store[0]} {next(word for word in store if word.startswith('v='))[2:]}",
        "python": platform.python_version(),
        "packages": packages,
    }


def free_bytes() -> int:
    """Return how much memory programs can still have."""
    known = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
    return int(known[1]) * 1024 if known else 0


def _processor() -> str:
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())
