"""Fits the formulas of the capacity to the long measurements, and checks them at sizes that they were not fitted to.

`python -m bench.capacity`, after `make bench-long GROUP=store`, prints what docs/capacity.md has between its marks;
`bench.page` writes it there. `acker_service.sizing.capacity` has the fitted shares.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from acker_service.sizing import capacity
from acker_service.sizing.benchmark import SHOWN_LOADS
from acker_service.sizing.capacity import FEWEST, OperationCosts, Workload, needs

from bench.kept import SIMULATED_SECTION, Kept, store_key, store_section

FITTED_TO = (10_000, 1_000_000, 10_000_000)
CHECKED_AT = (100_000, 5_000_000)
SIMULATED = 100_000_000
"""The third size that is checked: written by `bench.simulated`. What forgets a root is not measured there."""
OPERATIONS, SWEEP = ("an init", "an ack", "a last ack"), "forgetting a root"

Measured = Mapping[str, Mapping[int, float]]
"""Medians in CPU µs, by the operation and the number of pending roots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A line: the cost in CPU µs is ``base`` at `FEWEST` pending roots, and ``slope`` more for each tenfold of them."""

    base: float
    slope: float

    def at(self, x: float) -> float:
        """Return the cost at a place of the line."""
        return self.base + self.slope * x


def fit(points: Mapping[float, float]) -> Fit:
    """Fit a line to costs by least squares."""
    middle, mean = sum(points) / len(points), sum(points.values()) / len(points)
    spread = sum((x - middle) ** 2 for x in points)
    slope = sum((x - middle) * (y - mean) for x, y in points.items()) / spread
    return Fit(base=mean - slope * middle, slope=slope)


def tenfolds(pending: float) -> float:
    """Return how many times pending roots are ten times more than `FEWEST`: all costs are linear in that."""
    return math.log10(pending / FEWEST)


def fits(measured: Measured) -> dict[str, Fit]:
    """Fit each operation to the sizes of `FITTED_TO`."""
    return {name: fit({tenfolds(pending): costs[pending] for pending in FITTED_TO}) for name, costs in measured.items()}


def measurements(kept: Kept) -> dict[str, dict[int, float]]:
    """Read the medians of all sizes; empty where one is missing."""
    keys = {pending: store_key(store_section(), pending) for pending in (*FITTED_TO, *CHECKED_AT)}
    keys[SIMULATED] = store_key(SIMULATED_SECTION, SIMULATED)
    taken = {pending: found for pending, key in sorted(keys.items()) if (found := kept.get(key))}
    if len(taken) < len(keys):
        return {}
    measured = {name: {pending: found[name].median for pending, found in taken.items()} for name in OPERATIONS}
    measured[SWEEP] = {pending: found["sweep"].median for pending, found in taken.items() if "sweep" in found}
    measured["a last ack"] = {at: us - measured[SWEEP].get(at, 0.0) for at, us in measured["a last ack"].items()}
    return measured


def table(measured: Measured) -> str:
    """Write the fitted costs beside the measured ones, as the table of a page."""
    rows = ["| operation | pending roots | measured | by the formula | error |", "|---|---|---|---|---|"]
    for name, fitted in fits(measured).items():
        for pending, own in sorted(measured[name].items()):
            computed = fitted.at(tenfolds(pending))
            kind = "" if pending in FITTED_TO else ", simulated" if pending == SIMULATED else ", not fitted to"
            rows.append(
                f"| {name} | {pending:,}{kind} | {own:.1f} µs | {computed:.1f} µs | {computed / own - 1:+.0%} |"
            )
    return "\n".join(rows)


def residuals(measured: Measured) -> str:
    """Describe how far the measurements lie from the lines that were fitted to them."""
    found = [
        (name, math.sqrt(sum((fitted.at(tenfolds(at)) - measured[name][at]) ** 2 for at in FITTED_TO)))
        for name, fitted in fits(measured).items()
    ]
    norms = ", ".join(f"{name} {norm / math.sqrt(len(FITTED_TO)):.2f} µs" for name, norm in found)
    return f"Residuals of the fit (root mean square): {norms}."


def shares(measured: Measured) -> str:
    """Write the fitted shares beside those of `acker_service.sizing.capacity`."""
    found = fits(measured)
    fitted = [cost.slope / cost.base for cost in found.values()] + [found[SWEEP].base / found["a last ack"].base]
    used = (*capacity.GROWTH, capacity.GROWTH[2], capacity.FORGET)
    names = [f"a tenfold adds to {name}" for name in found] + [f"{SWEEP} takes of a last ack"]
    rows = ["| share | fitted | in `acker bench` |", "|---|---|---|"]
    rows += [f"| {name} | {own:.2f} | {known:.2f} |" for name, own, known in zip(names, fitted, used, strict=True)]
    return "\n".join(rows)


def loads(measured: Measured, root_bytes: float) -> str:
    """Write what some loads need, with the fitted costs, as the table of a page."""
    found = fits(measured)
    init, ack, last = (found[name].base for name in OPERATIONS)
    costs = OperationCosts(init_us=init, ack_us=ack, last_ack_us=last)
    columns = (
        "roots a second",
        "edges",
        "pending for",
        "dedupe window",
        "Redis",
        "acker processes",
        "memory",
        "maxmemory of each Redis, at least",
    )
    rows = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    return "\n".join([*rows, *(_needed(load, costs, root_bytes) for load in SHOWN_LOADS)])


def _needed(load: Workload, costs: OperationCosts, root_bytes: float) -> str:
    found = needs(load, costs, root_bytes=root_bytes)
    pending = f"{load.pending_s:,g} s ({load.pending:,.0f} pending)"
    servers = f"{found.servers} server{'s' * (found.servers > 1)}, {found.redis_cores:.2f} cores in all"
    cells = (
        f"{load.roots_per_s:,.0f}",
        load.edges,
        pending,
        f"{load.window_s:g} s" if load.window_s else "none",
        servers,
        found.processes,
        _size(found.memory_bytes),
        _size(found.maxmemory_bytes),
    )
    return f"| {' | '.join(map(str, cells))} |"


def _size(size: float) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"


def section(kept: Kept) -> dict[str, Any]:
    """Return the measurements as a part of the document of all figures; empty where a size is not measured yet."""
    measured = measurements(kept)
    if not measured:
        return {}
    key = store_key(store_section(), FITTED_TO[-1])
    taken = kept.get(key) or {}
    return {"commit": kept.commit(key), "root_bytes": taken["bytes"].median, "measured": measured}


def page(store: Mapping[str, Any]) -> str:
    """Write what docs/capacity.md has between its marks, from the part that `section` returned, also read from JSON."""
    measured = {name: {int(at): us for at, us in costs.items()} for name, costs in store["measured"].items()}
    intro = f"Fitted to measurements of commit {store['commit']}; a pending root had {store['root_bytes']:.0f} bytes."
    parts = (intro, table(measured), residuals(measured), shares(measured), loads(measured, store["root_bytes"]))
    return "\n\n".join(parts)


def main() -> None:
    """Print what the page has."""
    if not (found := section(Kept())):
        raise SystemExit("some sizes are not measured yet: make bench-long GROUP=store")
    print(page(found))


if __name__ == "__main__":
    main()
