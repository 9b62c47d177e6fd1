"""Hours of faults under the load of many clients: ``python -m tests.faults_long``, or ``make faults-long``.

It goes round by round, each on a store of its own, and audits the histories of all clients after each. Rounds that are
done stand in a file, so that ``--resume`` goes on where a run was stopped. The first broken promise ends it; what shows
it is kept. A run of the size that docs/trust.md asks for writes its result there.
"""

import json
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from docs.trust import results
from tests.faults_long import languages
from tests.faults_long.round import Outcome, document_of, line_of, run
from tests.faults_long.schedule import FAULTS_OF_A_ROUND, STORES, Round, rounds
from tests.support.mutant import Mutant
from tests.support.servers import PROGRAM

KEPT = Path(__file__).with_name("run")
FAULTS, OPERATIONS = 1_000, 5_000_000
"""What a run for docs/trust.md has at least."""

RATE = 4_000.0


def main(
    faults: Annotated[int, typer.Option(help="Go on until there were so many faults", min=1)] = FAULTS,
    operations: Annotated[int, typer.Option(help="and so many operations on roots", min=0)] = OPERATIONS,
    seed: Annotated[int, typer.Option(help="Chooses the faults, and the trees")] = 1,
    rate: Annotated[float, typer.Option(help="Operations a second that all clients together ask for")] = RATE,
    store: Annotated[list[str] | None, typer.Option(help=f"On these alone: {', '.join(STORES)}")] = None,
    rounds_at_most: Annotated[int | None, typer.Option("--rounds", help="Stop after so many further rounds")] = None,
    each: Annotated[int, typer.Option("--each", help="Faults of a round", min=0)] = FAULTS_OF_A_ROUND,
    kept: Annotated[Path, typer.Option(help="The folder of the run")] = KEPT,
    *,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run that was stopped")] = False,
    schedule: Annotated[bool, typer.Option("--schedule", help="Print the rounds of the faults, and run none")] = False,
    mutant: Annotated[str, typer.Option(help="Run it against this broken rule, as JSON: rule, old, new")] = "",
) -> None:
    """Exit with 1 if a promise was broken, or something did not come back after its faults."""
    planned = rounds(seed, stores=tuple(store or STORES), faults_of_a_round=each)
    if schedule:
        _print_schedule(planned, faults)
        return
    running = results.Run(command=_command(faults, operations, seed), seed=seed)
    done = _begin(kept, running, resume=resume)
    program = ("-m", "tests.faults_long.broken", _checked(mutant)) if mutant else PROGRAM
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)  # a program in the background ignores SIGINT otherwise
    drivers = {} if mutant else languages.commands()
    first = len(done)
    last = None if rounds_at_most is None else first + rounds_at_most
    for round_ in islice(planned, first, last):
        if _is_enough(done, faults, operations):
            break
        typer.echo(str(round_))
        outcome = run(
            round_,
            kept / f"round-{round_.number}",
            commit=running.commit,
            rate=rate,
            drivers=drivers,
            tell=typer.echo,
            program=program,
        )
        done.append(outcome)
        with (kept / "rounds.jsonl").open("a", encoding="utf-8") as out:
            out.write(json.dumps(asdict(outcome)) + "\n")
        typer.echo(line_of(outcome))
        if not outcome.is_kept:
            sys.exit(f"a promise was broken; its histories and logs are in {kept / f'round-{round_.number}'}")
    _end(done, running, kept, is_whole=_is_enough(done, max(faults, FAULTS), max(operations, OPERATIONS)))


def _stop(number: int, _: object) -> None:
    """End the run, and all that it has started; the round is run again when it goes on."""
    sys.exit(f"stopped by {signal.Signals(number).name}: it goes on with --resume")


def _begin(kept: Path, running: results.Run, *, resume: bool) -> list[Outcome]:
    """Return the rounds that are done; where there are some, the run has to be resumed, or its folder removed."""
    kept.mkdir(parents=True, exist_ok=True)
    file = kept / "rounds.jsonl"
    done = [Outcome(**json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []
    if done and not resume:
        sys.exit(f"{kept} has {len(done)} rounds of a run: go on with --resume, or remove it")
    if others := [each for each in done if (each.commit, each.seed) != (running.commit, running.seed)]:
        begun = f"seed {others[0].seed} at commit {others[0].commit}"
        sys.exit(f"the run was begun with {begun}, and this is {running.seed} at {running.commit}: go on with those")
    if broken := [each for each in done if not each.is_kept]:
        sys.exit(f"the run was ended by {line_of(broken[0])}; remove {kept} to begin another")
    return done


def _is_enough(done: list[Outcome], faults: int, operations: int) -> bool:
    happened = sum(sum(each.faults.values()) for each in done)
    return happened >= faults and sum(each.operations for each in done) >= operations


def _end(done: list[Outcome], running: results.Run, kept: Path, *, is_whole: bool) -> None:
    """Print what the run came to, and keep it for the page if it is as long as that asks for."""
    document = document_of(done)
    before_s = sum(each.seconds + each.audit_seconds for each in done)
    described = running.document() | {"took_s": round(before_s, 1)}
    (kept / "result.json").write_text(json.dumps({"run": described, **document}, indent=1) + "\n", encoding="utf-8")
    typer.echo(json.dumps(document, indent=1))
    if is_whole:
        results.keep("faults", described, document)


def _print_schedule(planned: Iterator[Round], faults: int) -> None:
    happened = 0
    while happened < faults:
        round_ = next(planned)
        happened += len(round_.faults)
        typer.echo(str(round_))


def _command(faults: int, operations: int, seed: int) -> str:
    return f"make faults-long FAULTS={faults} OPERATIONS={operations} SEED={seed}"


def _checked(mutant: str) -> str:
    """Return a mutant as it was given, once it is known that its rule can be broken so. Raises AssertionError."""
    Mutant(**json.loads(mutant)).broken()
    return mutant


if __name__ == "__main__":
    cli = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    cli.command()(main)
    cli()
