"""Measures what an init, an ack and a last ack take of Redis's processor, beside the code of an earlier commit.

Inits have message ids and acks edge ids; a last ack has with it what it takes to forget its root: measured once, over
more roots than are pending, because the tick removes outcomes by so many.
"""

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import redis

from bench import baseline
from bench.agents import Agent
from bench.direct import WEEK_MS
from bench.kept import Kept, store_key, store_section
from bench.measure import Series
from bench.progress import Progress
from bench.servers import Member, one
from bench.sizes import BATCH, Sizes
from bench.table import Curve, Line, Result, Skipped

GROUP = "redis"
MOST = 20_000
"""So many roots a round adds to those that are pending, and a fifth of these at most."""
RETENTION_MS = 1_000
UNIT = "CPU µs"
OPERATIONS = ("an init", "an ack", "a last ack")
FEWEST, FURTHEST = 10_000, 5_000_000
GROWS = 100
"""What pending roots add is compared where there are so many times more of them."""
SWEEP = ", and what forgets it"
AGENT = Path(__file__).parent / "redis_agent.py"

Taken = dict[str, list[float]]
Level = dict[str, Series]


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Result]:
    """Measure rounds at every level, both codes in turns, each on a server of its own."""
    codes = baseline.codes(folder)
    levels: dict[int, Level] = {}
    rounds = iter(progress.over(range(len(sizes.levels) * sizes.rounds)))
    for pending in sizes.levels:
        levels[pending] = level(codes, folder / str(pending), pending, sizes, rounds=rounds)
    next(rounds, None)
    yield from lines(levels, GROUP)
    yield from recorded_growth(Kept())
    if baseline.NAME not in codes:
        yield Skipped(group=GROUP, what=f"the same beside {baseline.NAME}", why=baseline.MISSING)


def level(
    codes: dict[str, Path],
    folder: Path,
    pending: int,
    sizes: Sizes,
    *,
    rounds: Iterator[int],
    options: tuple[str, ...] = (),
    program: str = "",
    message_timeout_ms: int = WEEK_MS,
    simulated: bool = False,
) -> Level:
    """Measure at one number of pending roots, and return each operation's series, by its name and the name of its code.

    With ``simulated`` the pending roots are written by `bench.simulated`, which only the present code has. Then a last
    ack is without what forgets its root: that takes more real roots than are pending.
    """
    taken: Taken = defaultdict(list)
    with contextlib.ExitStack() as stack:
        agents: dict[str, tuple[Agent, Member]] = {}
        for name, code in codes.items():
            server = stack.enter_context(one(folder / (name or "present"), *options, program=program))
            task = {
                "port": server.port,
                "pending": pending,
                "message_timeout_ms": message_timeout_ms,
                "retention_ms": RETENTION_MS,
                "sweep_s": sizes.sweep_s,
                "swept": sizes.swept,
            } | ({"simulated": True} if simulated else {})
            agents[name] = Agent(AGENT, task, code), server
            stack.callback(agents[name][0].close)
        for name, (agent, _) in agents.items():
            filled = agent.ask("fill")
            taken[f"bytes{name}"] = [filled["bytes"]] * sizes.rounds
            if not simulated:
                taken[f"sweep{name}"] = [agent.ask("forget")["sweep"]] * sizes.rounds
        for number in range(sizes.rounds):
            next(rounds, None)
            for name, (agent, server) in baseline.turns(agents, number):
                _round(agent.ask("round", min(MOST, pending // 5)), name, taken)
                if not name:
                    taken["SET"].append(_plain(server, BATCH))
    return {name: Series.of(values) for name, values in taken.items()}


def _round(result: dict[str, float], code: str, taken: Taken) -> None:
    for operation in OPERATIONS:
        swept = taken.get(f"sweep{code}") if operation == "a last ack" else None
        taken[operation + code].append(result[operation] + (swept[0] if swept else 0.0))


def _plain(server: Member, count: int) -> float:
    """Set one key so many times, as many in a round trip as there are operations in a batch."""
    with redis.Redis(port=server.port) as client:
        cpu = server.cpu_s()
        pipe = client.pipeline(transaction=False)
        for _ in range(count):
            pipe.execute_command("SET", "plain", "x" * 26)
        pipe.execute()
    return (server.cpu_s() - cpu) / count * 1e6


def lines(levels: dict[int, Level], group: str) -> Iterator[Result]:
    """Write the lines and the curves of all levels."""
    first = next(iter(levels))
    for name in OPERATIONS:
        for pending, taken in levels.items():
            beside, base = f"at {first:,}", levels[first][name]
            if pending == first:
                beside, base = f"a SET, {BATCH:,} in a round trip", taken["SET"]
            what = f"{_named(name) if 'sweep' in taken else name}, {pending:,} pending"
            line = Line(group=group, what=what, unit=UNIT, measured=taken[name], beside=beside, base=base)
            earlier = taken.get(name + baseline.NAME)
            yield from baseline.both(line, earlier) if earlier else (line,)
        if name + baseline.NAME in levels[first]:
            for pending in levels:
                if pending >= GROWS * first:
                    yield _growth(name, levels, group, pending)
    for code in ("", baseline.NAME):
        yield from _curves(levels, group, code)


def _named(operation: str) -> str:
    return operation + SWEEP if operation == "a last ack" else operation


def _growth(name: str, levels: dict[int, Level], group: str, last: int, beside: str = baseline.NAME) -> Line:
    """Compare what an operation takes more at a level than at the first."""
    first = next(iter(levels))
    grown = [
        Series.of(
            after - before for after, before in zip(levels[last][key].values, levels[first][key].values, strict=True)
        )
        for key in (name, name + baseline.NAME)
    ]
    return Line(
        group=group, what=_grown(name, first, last), unit=UNIT, measured=grown[0], beside=beside, base=grown[1],
        lowest_ratio_at_most=baseline.SLOWER,
    )  # fmt: skip


def _grown(name: str, first: int, last: int) -> str:
    return f"{_named(name)}, added from {first:,} to {last:,} pending"


def recorded_growth(kept: Kept) -> Iterator[Result]:
    """Write the lines of what `FURTHEST` pending roots add, which takes too long for a short run: as last recorded."""
    keys = {pending: store_key(store_section(), pending) for pending in (FEWEST, FURTHEST)}
    levels = {pending: taken for pending, key in keys.items() if (taken := kept.get(key))}
    for name in OPERATIONS:
        if len(levels) == len(keys) and all(name + baseline.NAME in taken for taken in levels.values()):
            beside = f"{baseline.NAME}, both as make bench-long recorded them at {kept.commit(keys[FURTHEST])}"
            yield _growth(name, levels, GROUP, FURTHEST, beside)
        else:
            why = f"python -m bench.long --group store --again measures it beside {baseline.NAME}"
            yield Skipped(group=GROUP, what=_grown(name, FEWEST, FURTHEST), why=why)


def _curves(levels: dict[int, Level], group: str, code: str) -> Iterator[Curve]:
    suffix = f", {code}" if code else ""
    for name in (*OPERATIONS, "bytes"):
        points = tuple(
            (pending, taken[name + code].median)
            for pending, taken in levels.items()
            if name + code in taken and (name != "a last ack" or "sweep" in taken)
        )
        plot = "bytes" if name == "bytes" else "cost"
        if points:
            yield Curve(group=group, plot=plot, name=f"{name}{suffix}", points=points)
