"""Try every interleaving of small trees: `make model`, and further in `make model-long`.

Prints a line for each search, and what led to a broken promise, and keeps the sizes for docs/trust.md. A run that is
stopped goes on with the searches that it has not ended. Exits with 1 if Acker breaks a promise, or if a known mistake
is not found: then nothing is kept.
"""

import argparse
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from docs.trust import results
from tests.interleavings.scenario import Scenario
from tests.interleavings.scenarios import (
    ALL,
    BESIDE,
    CHAIN,
    DELIVERED,
    FAILS,
    FAN,
    JOIN,
    MISTAKES,
    READERS,
    SLOT,
)
from tests.interleavings.search import Found, search

FAULTS = {CHAIN: 3, FAN: 2, JOIN: 2, FAILS: 2, ALL: 2, SLOT: 3, READERS: 2, DELIVERED: 2, BESIDE: 2}
LONG = {CHAIN: 4, FAILS: 3, ALL: 3, SLOT: 4, READERS: 3, DELIVERED: 3, BESIDE: 3}
"""How often something goes wrong in each scenario, and in the long run."""

CODE = ("client/src/acker_protocol", "tests/interleavings")
"""What is searched, and by what."""


def runs(*, long: bool) -> Iterator[Scenario]:
    """Yield what is tried: each scenario without deadlines, and with time that passes."""
    for expires in (False, True):
        for scenario, faults in (LONG if long else FAULTS).items():
            yield replace(scenario, faults=faults, expires=expires)


def line(found: Found) -> str:
    """Return what was found, in a line."""
    scenario = found.scenario
    ends = ", ".join(f"{how} {count}" for how, count in sorted(found.ends.items()))
    time = "time passes" if scenario.expires else "no deadline"
    return (
        f"{scenario.name:56} {scenario.faults} faults, {time}: {found.worlds:,} worlds, {found.steps:,} steps, "
        f"{found.cpu_s:.1f} s; {found.broken or ends}"
    )


def document(found: Found) -> dict[str, object]:
    """Return what was found, for programs."""
    return {
        "scenario": found.scenario.name,
        "faults": found.scenario.faults,
        "time_passes": found.scenario.expires,
        "worlds": found.worlds,
        "steps": found.steps,
        "cpu_s": round(found.cpu_s, 1),
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "ends": dict(found.ends),
        "broken": found.broken,
        "story_steps": len(found.story),
    }


def reporting(scenario: Scenario) -> Callable[[int], None]:
    """Return what shows how far a search is, where somebody looks on."""

    def report(tried: int) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{scenario.name}: {tried:,} worlds tried")

    return report


def main() -> int:
    """Search all, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.interleavings", description=__doc__)
    parser.add_argument(
        "--long", action="store_true", help="one fault more at once (an hour, and up to 16 GiB of memory)"
    )
    options = parser.parse_args()
    name = "model-long" if options.long else "model"
    run = results.Run(command=f"make {name}")
    progress = results.Progress(results.ROOT / f".{name}.json", CODE)
    for scenario in (*MISTAKES, *runs(long=options.long)):
        key = f"{scenario.name}, {scenario.faults}, {scenario.expires}"
        if key in progress.done:
            continue
        began_s = time.monotonic()
        found = search(scenario, report=reporting(scenario))
        is_right = (found.broken is not None) == (scenario in MISTAKES)
        sys.stdout.write("\n    ".join((line(found), *found.story)) + "\n")
        sys.stdout.flush()
        if not is_right:
            return 1
        progress.add(key, document(found), took_s=time.monotonic() - began_s)
    searches = list(progress.done.values())
    memory_mib = max(each["memory_mib"] for each in searches)
    sys.stdout.write(f"at most {memory_mib:,} MiB\n")
    results.keep(name, run.document(took_s=progress.took_s), {"memory_mib": memory_mib, "searches": searches})
    return 0


if __name__ == "__main__":
    sys.exit(main())
