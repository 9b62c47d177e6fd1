"""A clock of its own for each server of a store, which can be stepped: libfaketime stands before the system's."""

from pathlib import Path

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
MEMORY = Path("/dev/shm")
FILE = "clock"

STEP_MS = 2_000
"""How far a clock is stepped at most, forth or back."""


def own_clock(folder: Path) -> dict[str, str]:
    """Return the environment of a server with a clock of its own, which is right; it stands in the server's folder.

    It is the system's clock where there is no libfaketime.
    """
    if not LIBRARIES:
        return {}
    folder.mkdir(parents=True, exist_ok=True)
    step(folder, 0)
    return {
        "LD_PRELOAD": str(LIBRARIES[0]),
        "FAKETIME_TIMESTAMP_FILE": str(folder / FILE),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def step(folder: Path, by_ms: int) -> None:
    """Let the clock of a server be so far from the right time, within a second."""
    draft = folder / f"{FILE}.draft"
    draft.write_text(f"{by_ms / 1000:+.3f}\n", encoding="utf-8")
    draft.rename(folder / FILE)


def forget() -> None:
    """Remove the shared memory that libfaketime leaves of processes that were killed."""
    for path in MEMORY.glob("*faketime_s*_*"):
        if not Path("/proc", path.name.rpartition("_")[2]).exists():
            path.unlink(missing_ok=True)
