"""Measures what tracking adds to a task of Dramatiq: its own groups, and Acker in two ways, beside the untracked task.

A root is a job of some tasks. The figures are the processor time of all processes: the sender, the worker, the queue's
Redis, and with Acker the service and its Redis. *Safe* flushes each ack before the queue's own, *folded* lets acks wait
for one another; a worker that is killed then leaves roots that time out.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Series
from bench.peers.install import MissingToolError
from bench.peers.work import UNTRACKED, Peer, Run, dramatiq
from bench.progress import Progress
from bench.sizes import Sizes
from bench.table import Line, Result, Skipped

GROUP = "peers"
GOALS = {"safe": 0.5, "folded": 0.2}
"""What Acker may add to a task, as a ratio to what groups add."""
WAYS = {"groups": "groups", "safe": "Acker, safe", "folded": "Acker, folded", "chords": "chords", "flows": "flows"}
LEAST_US = 0.1
"""What is left where the untracked task happened to take more."""

Taken = dict[str, list[float]]


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Result]:
    """Measure rounds of Dramatiq in all ways."""
    peer = dramatiq()
    try:
        taken = rounds(peer, sizes, folder, progress)
    except MissingToolError as error:
        yield Skipped(group=GROUP, what="a task of Dramatiq, tracked", why=str(error))
        return
    yield from lines(peer, taken, GROUP)


def rounds(peer: Peer, sizes: Sizes, folder: Path, progress: Progress) -> dict[str, Series]:
    """Run the jobs in all ways, in turns, and return what each took for a task, by the way and the figure."""
    taken: Taken = defaultdict(list)
    for number in progress.over(range(sizes.rounds)):
        for way in (UNTRACKED, *peer.variants):
            run = Run(peer=peer, variant=way, roots=sizes.peer_roots, tasks=sizes.peer_tasks)
            ran = run.measure(folder / f"{way}-{number}")
            assert ran.finished == sizes.peer_roots, f"{peer.name}, {way}: {ran.finished} roots are done"
            taken[f"{way} cpu"].append(ran.cpu_us)
            taken[f"{way} wall"].append(ran.wall_us)
            taken[f"{way} above"].append(max(LEAST_US, ran.cpu_us - taken[f"{UNTRACKED} cpu"][-1]))
            taken[f"{way} bytes"].append(ran.redis_bytes)
    return {name: Series.of(values) for name, values in taken.items()}


def lines(peer: Peer, taken: dict[str, Series], group: str, *, goals: bool = True) -> Iterator[Line]:
    """Write a peer's lines: what each way adds, beside the peer's own way, and what a task takes in all."""
    own = peer.variants[0]
    for way in peer.variants:
        what = f"a task of {peer.name}, {WAYS[way]}, above the untracked task"
        beside, base = ("the untracked task", taken[f"{UNTRACKED} cpu"])
        if way != own:
            beside, base = (f"{peer.name}'s {WAYS[own]}", taken[f"{own} above"])
        yield Line(
            group=group, what=what, unit="CPU µs", measured=taken[f"{way} above"], beside=beside, base=base,
            ratio_at_most=GOALS.get(way) if goals else None,
        )  # fmt: skip
        for figure, unit, key in (("time passed", "µs", "wall"), ("all Redis at their peak", "bytes", "bytes")):
            what = f"{figure}, a task of {peer.name}, {WAYS[way]}"
            base = taken[f"{UNTRACKED} {key}"]
            yield Line(group=group, what=what, unit=unit, measured=taken[f"{way} {key}"], beside="untracked", base=base)
