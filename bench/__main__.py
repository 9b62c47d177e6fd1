"""The command line: `python -m bench` measures everything, in about three quarters of an hour on two cores."""

import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench import (
    client,
    cluster,
    decoding,
    dedupe_window,
    delivery,
    goals,
    http_batches,
    languages,
    memory,
    operating,
    outage,
    peers_cost,
    processes,
    redis_time,
    single,
    spark,
    table,
    timeouts,
    word_tree,
)
from bench.machine import machine
from bench.progress import Progress
from bench.sizes import FULL, TINY, Sizes
from bench.table import Result, Skipped

WIDE = 160
"""Where the output is no terminal, nobody knows how wide it is."""
LATEST = Path(__file__).parent / "latest.json"
"""What a whole run came to; `bench.page` reads it."""
PART = LATEST.with_name("part.json")
"""What a run of some groups, or of few rounds, came to."""
Measure = Callable[[Sizes, Path, Progress], Iterator[Result]]
MODULES = (
    *(
        memory,
        dedupe_window,
        http_batches,
        operating,
        single,
        processes,
        client,
        languages,
        word_tree,
        redis_time,
        timeouts,
        outage,
        delivery,
        cluster,
    ),
    *(decoding, peers_cost, spark),
)
GROUPS: dict[str, Measure] = {module.GROUP: module.measure for module in MODULES}


def run(groups: list[str], sizes: Sizes) -> list[Result]:
    """Measure groups, each on servers of its own."""
    lines: list[Result] = []
    for group in groups:
        with tempfile.TemporaryDirectory(prefix="acker-bench-", ignore_cleanup_errors=True) as folder:
            lines.extend(GROUPS[group](sizes, Path(folder), Progress(group)))
    return lines


@dataclass(slots=True, kw_only=True)
class Run:
    """What a run came to: its lines, the seconds that each group took, and the groups that ended with an error."""

    lines: list[Result] = field(default_factory=list)
    took_s: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def add(self, group: str, sizes: Sizes) -> None:
        """Measure a group. One that ends with an error leaves a line that says so, so that the others are kept."""
        began = time.monotonic()
        try:
            self.lines.extend(run([group], sizes))
        except Exception as error:  # noqa: BLE001 - whatever it is, the other groups are measured all the same
            traceback.print_exc()
            self.failed.append(group)
            self.lines.append(Skipped(group=group, what="the group", why=f"it ended with {type(error).__name__}"))
        self.took_s[group] = time.monotonic() - began


def main(
    *,
    only: Annotated[list[str] | None, typer.Option(help=f"Measure this group only: {', '.join(GROUPS)}")] = None,
    tiny: Annotated[bool, typer.Option("--tiny", help="Measure next to nothing, to see that everything runs")] = False,
    rounds: Annotated[int | None, typer.Option(help="Measure so many rounds instead of five", min=1)] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the tables of docs/figures.md")] = False,
    json: Annotated[Path | None, typer.Option(help="Where the values of all rounds are written")] = None,
) -> None:
    """Measure what the acker costs, each thing beside another one in the same run: medians of several rounds."""
    groups = only or list(GROUPS)
    if unknown := set(groups) - GROUPS.keys():
        raise typer.BadParameter(f"there is no group {', '.join(sorted(unknown))}", param_hint="--only")
    sizes = TINY if tiny else FULL
    sizes = replace(sizes, rounds=rounds or sizes.rounds)
    on, ran = machine() | {"rounds": str(sizes.rounds)}, Run()
    for group in groups:
        ran.add(group, sizes)
        on["minutes"] = f"{sum(ran.took_s.values()) / 60:.1f}"
        file = json or (LATEST if sizes == FULL and not only else PART)
        file.write_text(table.for_programs(ran.lines, on, ran.took_s), encoding="utf-8")
    if markdown:
        print(table.for_page(ran.lines))
    else:
        console = Console(width=None if sys.stdout.isatty() else WIDE)
        console.print(table.for_terminal(ran.lines))
        console.print(goals.for_terminal(ran.lines, sizes, groups))
    print("; ".join(f"{name}: {value}" for name, value in on.items()))
    if changes := single.speed_changes(ran.lines):
        print(f"make bench-page will replace nothing: {changes}", file=sys.stderr)
    if ran.failed:
        raise typer.Exit(1)


if __name__ == "__main__":
    cli = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    cli.command()(main)
    cli()
