"""Measures a root of twelve operations through the Python client: a spout, a split, ten counts with keys.

All three parts run in one process: the acks fold, the inits go in batches, and the spout reads each completion. The
present client is measured as it is installed, compiled where that was done, and then interpreted, too; client, service
and Redis of an earlier commit take turns with it. Beside it runs Storm's own topology of the same tree between two
workers, where `make bench-long GROUP=storm` has installed it.
"""

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from bench import baseline
from bench.agents import Agent
from bench.client import AGENT, COMPILED, NOT_COMPILED, interpreted, is_compiled
from bench.client_agent import AT_ONCE
from bench.http_batches import make_topology
from bench.kept import Kept
from bench.measure import Series
from bench.peers import storm
from bench.progress import Progress
from bench.servers import Member
from bench.serving import Served, ackers
from bench.sizes import Sizes
from bench.table import Line, Result, Skipped

GROUP = "tree"
ROOT = "a root of 12 operations: client, service and Redis"
"""How the line of a whole root is called."""

GOAL = 3.5
"""What the client, the service and Redis may take for a root, as a ratio to all processes of Storm."""
RECORDED = "storm, cost"
"""What `make bench-long` calls its case of Storm."""
STORM_US, ELSEWHERE = 46.0, "two idle cores of another machine"
"""What Storm takes for a root where it was measured first."""
WEEK_MS = 604_800_000
PARTS = ("the client", "the service", "Redis")
ALL = "all"
INTERPRETED = "interpreted"
TREE_RATIOS = {COMPILED: 0.5, INTERPRETED: 0.75}
"""What all three may take for a root, as a ratio to the earlier commit."""

Taken = dict[str, list[float]]


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Result]:
    """Measure rounds, each beside one of Storm where it is installed."""
    yield from lines(rounds(sizes, folder, progress), Kept())


def rounds(sizes: Sizes, folder: Path, progress: Progress) -> dict[str, Series]:
    """Return what each part, and Storm, took for a root in each round.

    What `INTERPRETED` and the earlier commit took has their names before it.
    """
    taken: Taken = defaultdict(list)
    installed, seconds = storm.program(), storm.SECONDS if sizes.words > AT_ONCE else 1
    codes = baseline.codes(folder)
    compared = is_compiled()
    clients = codes | ({INTERPRETED: interpreted(folder)} if compared else {})
    with contextlib.ExitStack() as stack:
        # an acker each, so that all stores hold as many roots
        services = stack.enter_context(ackers(codes | ({INTERPRETED: baseline.ROOT} if compared else {}), folder))
        agents = dict[str, Agent]()
        for code, (service, _) in services.items():
            make_topology(service, {"message_timeout_ms": WEEK_MS})
            agents[code] = stack.enter_context(contextlib.closing(Agent(AGENT, {"url": service.url}, clients[code])))
        for number in progress.over(range(sizes.rounds)):
            for code, (service, store) in baseline.turns(services, number):
                _round(agents[code], service, store, sizes.words, taken, f"{code} " if code else "")
            if installed:
                taken["Storm"].append(storm.run(installed, seconds=seconds, warm_up_s=seconds).cpu_us)
    return {name: Series.of(values) for name, values in taken.items()}


def _round(agent: Agent, service: Served, store: Member, count: int, taken: Taken, prefix: str) -> None:
    before = service.cpu_s(), store.cpu_s()
    client_s = agent.ask("tree", count)["cpu_s"]
    spent = client_s, service.cpu_s() - before[0], store.cpu_s() - before[1]
    for part, seconds in zip(PARTS, spent, strict=True):
        taken[f"{prefix}{part}"].append(seconds / count * 1e6)
    taken[f"{prefix}{ALL}"].append(sum(spent) / count * 1e6)


def lines(taken: dict[str, Series], kept: Kept) -> Iterator[Result]:
    """Write the lines; Storm's figure is that of the same run or else the last one that there is."""
    us, rounds = "CPU µs", len(taken[ALL].values)
    beside, base = "Storm, two workers, all in", taken.get("Storm")
    if base is None:
        recorded = (kept.get(RECORDED) or {}).get("Storm")
        known = f"commit {kept.commit(RECORDED)}" if recorded else ELSEWHERE
        beside = f"{beside}, {known}; not of this run"
        base = Series.of([recorded.median if recorded else STORM_US] * rounds)
    yield Line(
        group=GROUP, what=ROOT, unit=us, measured=taken[ALL],
        beside=beside, base=base, ratio_at_most=GOAL,
    )  # fmt: skip
    for part in PARTS:
        yield Line(
            group=GROUP, what=f"{part}, a root of 12 operations", unit=us, measured=taken[part], beside="all three",
            base=taken[ALL],
        )  # fmt: skip
    yield from _beside_commit(taken)


def _beside_commit(taken: dict[str, Series]) -> Iterator[Result]:
    """Compare what all three take with the earlier commit, with the client compiled and interpreted."""
    by_client = {COMPILED: taken[ALL], INTERPRETED: taken.get(f"{INTERPRETED} {ALL}", taken[ALL])}
    earlier = taken.get(f"{baseline.NAME} {ALL}")
    for client, goal in TREE_RATIOS.items():
        what = f"{ROOT}, {client}, beside {baseline.NAME}"
        if earlier is None:
            yield Skipped(group=GROUP, what=what, why=baseline.MISSING)
        elif client == COMPILED and f"{INTERPRETED} {ALL}" not in taken:
            yield Skipped(group=GROUP, what=what, why=NOT_COMPILED)
        else:
            yield Line(
                group=GROUP, what=what, unit="CPU µs", measured=by_client[client], beside=baseline.NAME, base=earlier,
                ratio_at_most=goal,
            )  # fmt: skip
