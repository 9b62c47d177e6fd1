"""Fits the cost of operations to the long measurements, and checks it at sizes that it was not fitted to.

`python -m bench.capacity`, after `make bench-long GROUP=store`; it prints the table for docs/capacity.md.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from acker_service.capacity import OperationCosts

from bench import long
from bench.redis_time import OPERATIONS
from bench.sizes import FULL

FITTED_TO = (10_000, 1_000_000, 10_000_000)
CHECKED_AT = (100_000, 5_000_000)
FEWEST = FITTED_TO[0]
SECTION = f"{long.STORES[0]}, timeouts of a week, append-only file off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The cost of an operation in CPU µs: at the fewest pending roots, and what each tenfold of them adds."""

    base: float
    slope: float

    def at(self, pending: float) -> float:
        """Give the cost with so many roots pending on one server."""
        return self.base + self.slope * math.log10(pending / FEWEST)


def fit(measured: Mapping[int, float]) -> Fit:
    """Fit a line over the logarithm of the pending roots by least squares."""
    across = [math.log10(pending / FEWEST) for pending in measured]
    middle, mean = sum(across) / len(across), sum(measured.values()) / len(measured)
    spread = sum((x - middle) ** 2 for x in across)
    slope = sum((x - middle) * (y - mean) for x, y in zip(across, measured.values(), strict=True)) / spread
    return Fit(base=mean - slope * middle, slope=slope)


def costs(fits: Mapping[str, Fit], pending: float, servers: int = 1) -> OperationCosts:
    """Give the costs of operations with so many roots pending, spread over servers."""
    init, ack, last = (fits[name].at(max(FEWEST, pending / servers)) for name in OPERATIONS)
    return OperationCosts(init_us=init, ack_us=ack, last_ack_us=last)


def table(measured: Mapping[str, Mapping[int, float]]) -> str:
    """Write the fitted costs beside the measured ones, as the table of a page."""
    rows = ["| operation | pending roots | measured | by the formula | error |", "|---|---|---|---|---|"]
    for name, found in measured.items():
        fitted = fit({pending: found[pending] for pending in FITTED_TO})
        for pending in sorted(found):
            own, computed = found[pending], fitted.at(pending)
            kind = "" if pending in FITTED_TO else " (not fitted to)"
            rows.append(
                f"| {name} | {pending:,}{kind} | {own:.1f} µs | {computed:.1f} µs | {computed / own - 1:+.0%} |"
            )
    return "\n".join(rows)


def main() -> None:
    """Print the table of what was measured."""
    kept = long.Kept(long.KEPT)
    found = {
        case.pending: taken
        for case in long.cases("store", FULL)
        if case.section == SECTION and (taken := kept.get(case))
    }
    if missing := [pending for pending in (*FITTED_TO, *CHECKED_AT) if pending not in found]:
        raise SystemExit(f"not measured yet: {missing}; run make bench-long GROUP=store")
    print(table({name: {pending: taken[name].median for pending, taken in found.items()} for name in OPERATIONS}))


if __name__ == "__main__":
    main()
