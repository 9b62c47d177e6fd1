"""The command line: `python -m bench` measures everything, in about half an hour on two cores."""

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench import (
    client,
    cluster,
    decoding,
    delivery,
    http_batches,
    memory,
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
from bench.table import Result

WIDE = 160
"""Where the output is no terminal, nobody knows how wide it is."""
LATEST = Path(__file__).parent / "latest.json"
Measure = Callable[[Sizes, Path, Progress], Iterator[Result]]
MODULES = (
    *(memory, http_batches, single, processes, client, word_tree, redis_time, timeouts, delivery, cluster, decoding),
    *(peers_cost, spark),
)
GROUPS: dict[str, Measure] = {module.GROUP: module.measure for module in MODULES}


def run(groups: list[str], sizes: Sizes) -> list[Result]:
    """Measure groups, each on servers of its own."""
    lines: list[Result] = []
    for group in groups:
        with tempfile.TemporaryDirectory(prefix="acker-bench-", ignore_cleanup_errors=True) as folder:
            lines.extend(GROUPS[group](sizes, Path(folder), Progress(group)))
    return lines


def main(
    *,
    only: Annotated[list[str] | None, typer.Option(help=f"Measure this group only: {', '.join(GROUPS)}")] = None,
    tiny: Annotated[bool, typer.Option("--tiny", help="Measure next to nothing, to see that everything runs")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the tables for docs/performance.md")] = False,
    json: Annotated[Path, typer.Option(help="Where the values of all rounds are written")] = LATEST,
) -> None:
    """Measure what the acker costs, each thing beside another one in the same run: medians of several rounds."""
    groups = only or list(GROUPS)
    if unknown := set(groups) - GROUPS.keys():
        raise typer.BadParameter(f"there is no group {', '.join(sorted(unknown))}", param_hint="--only")
    on = machine()
    lines = run(groups, TINY if tiny else FULL)
    json.write_text(table.for_programs(lines, on), encoding="utf-8")
    if markdown:
        print(table.for_page(lines))
    else:
        Console(width=None if sys.stdout.isatty() else WIDE).print(table.for_terminal(lines))
    print("; ".join(f"{name}: {value}" for name, value in on.items()))


if __name__ == "__main__":
    cli = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    cli.command()(main)
    cli()
