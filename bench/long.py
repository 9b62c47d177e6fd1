"""The long measurements: `python -m bench.long --group store`, or `make bench-long GROUP=store`.

Each case that is finished is written to a file at once. A case that the file has is not measured again, so a run that
was stopped goes on where it was. The file is one line of JSON for each case.
"""

import itertools
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench import baseline, peers_cost, redis_time, table, word_tree
from bench.__main__ import WIDE
from bench.direct import WEEK_MS
from bench.measure import Series
from bench.peers import install, work
from bench.progress import Progress
from bench.servers import find_redis7
from bench.sizes import FULL, TINY, Sizes
from bench.table import Line, Result

KEPT = Path(__file__).parent / "long.jsonl"
TIMEOUTS = {"minutes": 1_800_000, "a week": WEEK_MS}
AOF = {"off": (), "on": ("--appendonly", "yes", "--appendfsync", "everysec")}
STORES = ("Valkey", "Redis 7.0")
PENDING = (10_000, 100_000, 1_000_000, 5_000_000, 10_000_000)
TINY_PENDING = (5_000, 6_000)
FAULTY_ROOTS, FAULTY_TASKS = 50, 20
PEERS: dict[str, Callable[[], work.Peer]] = {
    "dramatiq": work.dramatiq,
    "celery": work.celery,
    "bullmq": work.bullmq,
}

Taken = dict[str, Series]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One thing that is measured at a stretch. Cases of one section make a table; ``key`` names it within the file.

    ``pending`` is the number of pending roots that a case of the store is measured at.
    """

    section: str
    key: str
    measure: Callable[[Sizes, Path, Progress], Taken]
    pending: int = 0


class Kept:
    """The file of what was measured."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, Taken] = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            record = json.loads(line)
            self._found[record["key"]] = {name: Series.of(values) for name, values in record["taken"].items()}

    def get(self, case: Case) -> Taken | None:
        """Give what a case came to, None if it is not there."""
        return self._found.get(case.key)

    def add(self, case: Case, taken: Taken) -> None:
        """Write what a case came to."""
        self._found[case.key] = taken
        values = {name: series.values for name, series in taken.items()}
        with self._path.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"key": case.key, "commit": baseline.head(), "taken": values}) + "\n")


def store_cases(pending: Sequence[int]) -> Iterator[Case]:
    """The matrix of stores, timeouts, append-only files and pending roots."""
    for store, (timeout, timeout_ms), (aof, options) in itertools.product(STORES, TIMEOUTS.items(), AOF.items()):
        section = f"{store}, timeouts of {timeout}, append-only file {aof}"
        for roots in pending:

            def measure(
                sizes: Sizes,
                folder: Path,
                progress: Progress,
                *,
                cell: tuple[str, int, tuple[str, ...], int] = (store, timeout_ms, options, roots),
            ) -> Taken:
                return _cell(sizes, folder, progress, cell)

            yield Case(section=section, key=f"{section}, {roots:,} pending", measure=measure, pending=roots)


def _cell(sizes: Sizes, folder: Path, progress: Progress, cell: tuple[str, int, tuple[str, ...], int]) -> Taken:
    store, timeout_ms, options, pending = cell
    program = find_redis7(folder) if store != STORES[0] else ""
    if program is None:
        raise install.MissingToolError("no Redis 7.0 here: apt-get install redis-tools (Debian 12)")
    with baseline.checkout(folder) as earlier:
        codes = {"": baseline.ROOT} | ({baseline.NAME: earlier} if earlier else {})
        rounds = iter(progress.over(range(sizes.rounds)))
        taken = redis_time.level(
            codes,
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

    yield Case(section="storm", key="storm, cost", measure=measure)


def cases(group: str, sizes: Sizes) -> list[Case]:
    """Give the cases of a group."""
    if group == "store":
        return list(store_cases(PENDING if sizes is FULL else TINY_PENDING))
    return list(storm_cases() if group == "storm" else peer_cases(group))


GROUPS = ("store", *PEERS, "storm")


def results(group: str, found: Iterable[tuple[Case, Taken]]) -> Iterator[Result]:
    """Write the lines of what was measured of a group."""
    levels: dict[str, dict[int, Taken]] = {}
    for case, taken in found:
        if group == "storm":
            yield from word_tree.lines(taken)
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
    for what, key in (
        ("roots reported as done", "reported"),
        ("reported before all tasks were done", "early"),
        ("reported again", "repeated"),
    ):
        yield Line(
            group=case.section, what=f"{peers_cost.WAYS[way]}: {what}", unit="roots", measured=taken[key],
            beside="all roots", base=taken["roots"],
        )  # fmt: skip


def run(group: str, sizes: Sizes, kept: Kept, *, again: bool = False) -> list[tuple[Case, Taken]]:
    """Measure the cases of a group that the file lacks; says on the error output how far it is."""
    found: list[tuple[Case, Taken]] = []
    all_cases = cases(group, sizes)
    for number, case in enumerate(all_cases, 1):
        taken = None if again else kept.get(case)
        print(f"{number} of {len(all_cases)}: {case.key}{', kept' if taken else ''}", file=sys.stderr, flush=True)
        if taken is None:
            try:
                with tempfile.TemporaryDirectory(prefix="acker-bench-", ignore_cleanup_errors=True) as folder:
                    taken = case.measure(sizes, Path(folder), Progress(group))
            except install.MissingToolError as error:
                print(f"not measured: {error}", file=sys.stderr, flush=True)
                continue
            kept.add(case, taken)
        found.append((case, taken))
    return found


def main(
    *,
    group: Annotated[str, typer.Option(help=f"What to measure: {', '.join(GROUPS)}")],
    tiny: Annotated[bool, typer.Option("--tiny", help="Measure next to nothing, to see that everything runs")] = False,
    again: Annotated[bool, typer.Option("--again", help="Measure also what the file has")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the tables of a page")] = False,
    kept: Annotated[Path, typer.Option(help="The file of what was measured")] = KEPT,
) -> None:
    """Measure for hours: the matrix of stores, or another system on the same tree of work."""
    if group not in GROUPS:
        raise typer.BadParameter(f"there is no group {group}", param_hint="--group")
    lines = list(results(group, run(group, TINY if tiny else FULL, Kept(kept), again=again)))
    if markdown:
        print(table.for_page(lines))
    else:
        Console(width=None if sys.stdout.isatty() else WIDE).print(table.for_terminal(lines))


if __name__ == "__main__":
    cli = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    cli.command()(main)
    cli()
