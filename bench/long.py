"""The long measurements: `python -m bench.long --group store`, or `make bench-long GROUP=store`.

Each case that is finished is written to a file at once. A case that the file has is not measured again, so a run that
was stopped goes on where it was. The file is one line of JSON for each case.
"""

import itertools
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench import baseline, peers_cost, queues, redis_time, table, word_tree
from bench.__main__ import WIDE
from bench.direct import WEEK_MS
from bench.kept import KEPT, SIMULATED_SECTION, Kept, Taken, store_key, store_section
from bench.machine import free_bytes
from bench.measure import Series
from bench.peers import install, storm, work
from bench.peers.work import WINDOW
from bench.progress import Progress
from bench.servers import find_redis7
from bench.sizes import FULL, TINY, Sizes
from bench.table import NO_WINDOW, Line, Result

TIMEOUTS = {"minutes": 1_800_000, "a week": WEEK_MS}
AOF = {"off": (), "on": ("--appendonly", "yes", "--appendfsync", "everysec")}
STORES = ("Valkey", "Redis 7.0")
PENDING = (10_000, 100_000, 1_000_000, 5_000_000, 10_000_000)
TINY_KEPT = KEPT.with_name("long-tiny.jsonl")
SIMULATED = (5_000_000, 100_000_000)
"""So many pending roots are simulated too: as many as also were emitted, to compare, and more than that."""
BYTES_EACH = 60
"""Of the memory that must be free before so many are simulated."""
TINY_PENDING, TINY_SIMULATED = (5_000, 6_000), (6_000,)
FAULTY_ROOTS, FAULTY_TASKS = 50, 20
PEERS: dict[str, Callable[[], work.Peer]] = {
    "dramatiq": work.dramatiq,
    "celery": work.celery,
    "bullmq": work.bullmq,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One thing that is measured at a stretch. Cases of one section make a table; ``key`` names it within the file.

    ``pending`` is the number of pending roots that a case of the store is measured at.
    """

    section: str
    key: str
    measure: Callable[[Sizes, Path, Progress], Taken]
    pending: int = 0


def store_cases(pending: Sequence[int]) -> Iterator[Case]:
    """The matrix of stores, timeouts, append-only files and pending roots."""
    for store, (timeout, timeout_ms), (aof, options) in itertools.product(STORES, TIMEOUTS.items(), AOF.items()):
        section = store_section(store, timeout, aof)
        for roots in pending:

            def measure(
                sizes: Sizes,
                folder: Path,
                progress: Progress,
                *,
                cell: tuple[str, int, tuple[str, ...], int] = (store, timeout_ms, options, roots),
            ) -> Taken:
                return _cell(sizes, folder, progress, cell)

            yield Case(section=section, key=store_key(section, roots), measure=measure, pending=roots)


def simulated_cases(pending: Sequence[int]) -> Iterator[Case]:
    """Like the cases of Valkey, a week and no append-only file, with roots that were not emitted; the present code."""
    for roots in pending:

        def measure(sizes: Sizes, folder: Path, progress: Progress, *, roots: int = roots) -> Taken:
            if free_bytes() < roots * BYTES_EACH:
                raise install.MissingToolError(f"{roots * BYTES_EACH / 2**30:.0f} GiB of memory are not free")
            rounds = iter(progress.over(range(sizes.rounds)))
            taken = redis_time.level({"": baseline.ROOT}, folder, roots, sizes, rounds=rounds, simulated=True)
            next(rounds, None)
            return taken

        yield Case(section=SIMULATED_SECTION, key=store_key(SIMULATED_SECTION, roots), measure=measure, pending=roots)


def _cell(sizes: Sizes, folder: Path, progress: Progress, cell: tuple[str, int, tuple[str, ...], int]) -> Taken:
    store, timeout_ms, options, pending = cell
    program = find_redis7(folder) if store != STORES[0] else ""
    if program is None:
        raise install.MissingToolError("no Redis 7.0 here: apt-get install redis-tools (Debian 12)")
    rounds = iter(progress.over(range(sizes.rounds)))
    taken = redis_time.level(
        baseline.codes(folder),
        folder,
        pending,
        sizes,
        rounds=rounds,
        options=options,
        program=program,
        message_timeout_ms=timeout_ms,
    )
    next(rounds, None)
    return taken


def peer_cases(name: str) -> Iterator[Case]:
    """What a peer takes for a task, and what it reports when a worker dies and tasks are delivered twice."""
    make = PEERS[name]
    yield Case(
        section=name,
        key=f"{name}, cost",
        measure=lambda sizes, folder, progress: peers_cost.rounds(make(), sizes, folder, progress),
    )
    for way in make().variants:

        def measure(sizes: Sizes, folder: Path, progress: Progress, *, way: str = way) -> Taken:
            roots = FAULTY_ROOTS if sizes.peer_roots > FAULTY_ROOTS else sizes.peer_roots
            run = work.Run(
                peer=make(), variant=way, roots=roots, tasks=FAULTY_TASKS, faults=True, dedupe=way in peers_cost.GOALS
            )
            ran = [run.measure(folder / str(number)) for number in progress.over(range(sizes.rounds))]
            return {
                "roots": Series.of(roots for _ in ran),
                "reported": Series.of(one.finished for one in ran),
                "early": Series.of(one.early for one in ran),
                "repeated": Series.of(one.repeated for one in ran),
            }

        yield Case(section=f"{name}, faults", key=f"{name}, faults, {way}", measure=measure)


def storm_cases() -> Iterator[Case]:
    """The same tree of work in Storm and through Acker."""

    def measure(sizes: Sizes, folder: Path, progress: Progress) -> Taken:
        install.storm()
        return word_tree.rounds(sizes, folder, progress)

    def faults(sizes: Sizes, _: Path, progress: Progress) -> Taken:
        folder, roots = install.storm(), min(sizes.peer_roots, FAULTY_ROOTS)
        ran = [storm.faults(folder, roots=roots, tasks=FAULTY_TASKS) for _ in progress.over(range(sizes.rounds))]
        names = ("reported", "early", "repeated", "replayed")
        return {"roots": Series.of(roots for _ in ran)} | {name: Series.of(one[name] for one in ran) for name in names}

    yield Case(section="storm", key=word_tree.RECORDED, measure=measure)
    yield Case(section="storm, faults", key="storm, faults, Storm", measure=faults)


def queue_cases() -> Iterator[Case]:
    """Trees of tasks that publish tasks, in each queue."""
    for name, peer in queues.peers().items():

        def measure(sizes: Sizes, folder: Path, progress: Progress, *, peer: work.Peer = peer) -> Taken:
            return queues.rounds(peer, sizes, folder, progress)

        yield Case(section=queues.GROUP, key=f"{queues.GROUP}, {name}", measure=measure)


def cases(group: str, sizes: Sizes) -> list[Case]:
    """Return the cases of a group."""
    if group == "store":
        pending, simulated = (PENDING, SIMULATED) if sizes.levels == FULL.levels else (TINY_PENDING, TINY_SIMULATED)
        return [*store_cases(pending), *simulated_cases(simulated)]
    others = {"storm": storm_cases, queues.GROUP: queue_cases}
    return list(others[group]() if group in others else peer_cases(group))


GROUPS = ("store", *PEERS, "storm", queues.GROUP)


def results(group: str, found: Iterable[tuple[Case, Taken]], kept: Kept) -> Iterator[Result]:
    """Write the lines of what was measured of a group."""
    levels: dict[str, dict[int, Taken]] = {}
    for case, taken in found:
        if case.key == word_tree.RECORDED:
            yield from word_tree.lines(taken, kept)
        elif group == queues.GROUP:
            yield from queues.lines(case.key.rpartition(", ")[2], taken)
        elif group == "store":
            levels.setdefault(case.section, {})[case.pending] = taken
        elif case.section == group:
            yield from peers_cost.lines(PEERS[group](), taken, group)
        else:
            yield from _faults(case, taken)
    for section, own in levels.items():
        yield from redis_time.lines(dict(sorted(own.items())), section)


def _faults(case: Case, taken: Taken) -> Iterator[Line]:
    way = case.key.rpartition(", ")[2]
    window = WINDOW if way in peers_cost.GOALS else NO_WINDOW
    for what, key in (
        ("roots reported as done", "reported"),
        ("reported before all tasks were done", "early"),
        ("reported again", "repeated"),
        ("emitted again", "replayed"),
    ):
        if key in taken:
            yield Line(
                group=case.section, what=f"{peers_cost.WAYS.get(way, way)}: {what}", unit="roots", measured=taken[key],
                beside="all roots", base=taken["roots"], window=window,
            )  # fmt: skip


def run(group: str, sizes: Sizes, kept: Kept, *, only: str = "", again: bool = False) -> list[tuple[Case, Taken]]:
    """Measure the cases of a group that the file lacks; says on the error output how far it is.

    ``only`` leaves out the cases whose keys do not hold this text.
    """
    found: list[tuple[Case, Taken]] = []
    all_cases = [case for case in cases(group, sizes) if only in case.key]
    for number, case in enumerate(all_cases, 1):
        taken = None if again else kept.get(case.key)
        known = f", kept from commit {kept.commit(case.key)}" if taken else ""
        print(f"{number} of {len(all_cases)}: {case.key}{known}", file=sys.stderr, flush=True)
        if taken is None:
            try:
                with tempfile.TemporaryDirectory(prefix="acker-bench-", ignore_cleanup_errors=True) as folder:
                    taken = case.measure(sizes, Path(folder), Progress(group))
            except install.MissingToolError as error:
                print(f"not measured: {error}", file=sys.stderr, flush=True)
                continue
            kept.add(case.key, taken)
        found.append((case, taken))
    return found


def main(
    *,
    group: Annotated[str, typer.Option(help=f"What to measure: {', '.join(GROUPS)}")],
    only: Annotated[str, typer.Option(help="Leave out the cases whose names do not hold this text")] = "",
    tiny: Annotated[bool, typer.Option("--tiny", help="Measure next to nothing, to see that everything runs")] = False,
    rounds: Annotated[int | None, typer.Option(help="Measure so many rounds instead of five", min=1)] = None,
    again: Annotated[bool, typer.Option("--again", help="Measure also what the file has")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the tables of a page")] = False,
    kept: Annotated[Path | None, typer.Option(help="The file of what was measured")] = None,
) -> None:
    """Measure for hours: the matrix of stores, or another system on the same tree of work."""
    if group not in GROUPS:
        raise typer.BadParameter(f"there is no group {group}", param_hint="--group")
    sizes, file = TINY if tiny else FULL, Kept(kept or (TINY_KEPT if tiny else KEPT))
    sizes = replace(sizes, rounds=rounds or sizes.rounds)
    lines = list(results(group, run(group, sizes, file, only=only, again=again), file))
    if markdown:
        print(table.for_page(lines))
    else:
        Console(width=None if sys.stdout.isatty() else WIDE).print(table.for_terminal(lines))


if __name__ == "__main__":
    cli = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    cli.command()(main)
    cli()
