"""Measures what acks cost in the Python client: offered at 100,000 a second from one process, and its import.

Once each ack is of a root of its own, so that none folds; once a thousand are of one root, and again with a dedupe
window, under which they do not fold; once each is of a root of its own and its tuple has a child with a key; and once
each is flushed by itself, as before a queue forgets its message. Client,
service and Redis of an earlier commit take turns with the present ones. The present client is measured interpreted,
and compiled where that was done.
"""

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bench import baseline
from bench.agents import Agent
from bench.client_agent import OFFERED
from bench.direct import WEEK_MS
from bench.http_batches import make_topology
from bench.measure import Series
from bench.progress import Progress
from bench.servers import Member
from bench.serving import Served, ackers
from bench.sizes import Sizes
from bench.table import NO_WINDOW, Line, Result, Skipped

GROUP = "client"
AGENT = Path(__file__).parent / "client_agent.py"
UNFOLDED = "1,000 of a root, none folded"
WITH_CHILD = "each with one child"
PER_ROOT = {"each of another root": 1, "1,000 of a root": 1_000, UNFOLDED: 1_000, WITH_CHILD: 1}
FLUSHED = "flushed by itself"
CLIENT, SERVICE, REDIS = "the client", "the service", "Redis"
ALL = "client, service and Redis"
BESIDE = {CLIENT: SERVICE, SERVICE: REDIS, REDIS: SERVICE}
"""What the figure of each part is compared with."""
GOALS = {"each of another root": 9.0, "1,000 of a root": 8.0, WITH_CHILD: 18.0}
"""The CPU µs that an ack may take of the client."""
COMPILED = "compiled"
NOT_COMPILED = (
    "the hot path of the client is not compiled here: make setup compiles it where a C compiler and Python.h are"
)
INTERPRETED_RATIO = 0.75
COMPILED_RATIOS = {"each of another root": 0.15, "1,000 of a root": 0.15, WITH_CHILD: 0.35}
"""What an ack may take of the client before it is sent, as a ratio to the earlier commit."""
FLUSHED_RATIOS = {CLIENT: 0.2, ALL: 0.5}
"""What an ack that is flushed by itself may take, as a ratio to the earlier commit."""
EXTRA_MS = 100

Taken = dict[str, list[float]]


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Result]:
    """Measure rounds of all, and of the import."""
    taken: dict[str, Taken] = defaultdict(lambda: defaultdict(list))
    codes = baseline.codes(folder)
    compiled_code = {COMPILED: baseline.ROOT} if is_compiled() else {}
    clients = codes | {"": interpreted(folder)} | compiled_code
    with contextlib.ExitStack() as stack:
        # an acker each: what an acker remembers of edges is bounded
        services, agents = stack.enter_context(ackers(codes | compiled_code, folder)), dict[str, Agent]()
        for code, (service, _) in services.items():
            agent = Agent(AGENT, {"url": service.url}, clients[code])
            agents[code] = stack.enter_context(contextlib.closing(agent))
        for number in progress.over(range(sizes.rounds)):
            for name, (code, (service, store)) in itertools.product(PER_ROOT, baseline.turns(services, number)):
                window_ms = WEEK_MS if name == UNFOLDED else 0
                make_topology(service, {"message_timeout_ms": WEEK_MS, "dedupe_window_ms": window_ms})
                _round(agents[code], service, store, sizes.acks, name, taken[code])
            for code, (service, store) in baseline.turns(services, number):
                _flushed(agents[code], service, store, sizes.singles, taken[code])
            _import(codes, taken)
    compiled = {key: Series.of(values) for key, values in taken[COMPILED].items()}
    yield from _lines(*baseline.series(taken), compiled)


def interpreted(folder: Path) -> Path:
    """Make a root of the present code without what was compiled of it."""
    root = folder / "interpreted"
    shutil.copytree(
        baseline.ROOT / "client" / "src",
        root / "client" / "src",
        ignore=shutil.ignore_patterns("compiled", "__pycache__"),
    )
    for name in ("bench", "service"):
        (root / name).symlink_to(baseline.ROOT / name)
    return root


def is_compiled() -> bool:
    """Whether the present client is compiled."""
    script = "from acker_client._core import hot_path; print(hot_path.__file__.endswith('.py'))"
    own = os.environ | baseline.environment(baseline.ROOT)
    return (
        subprocess.run([sys.executable, "-c", script], env=own, stdout=subprocess.PIPE, check=True).stdout == b"False\n"
    )


def _round(agent: Agent, service: Served, store: Member, count: int, name: str, taken: Taken) -> None:
    """Ack all, and see how long it took whom until the last one was answered."""
    agent.ask("emit", count, PER_ROOT[name])
    service_s, store_s = service.cpu_s(), store.cpu_s()
    took = agent.ask("ack", int(name == WITH_CHILD))
    taken[f"{name}/s"].append(count / took["wall_s"])
    spent = {CLIENT: took["cpu_s"], SERVICE: service.cpu_s() - service_s, REDIS: store.cpu_s() - store_s}
    for part, seconds in spent.items():
        taken[f"{part}, an ack, {name}"].append(seconds / count * 1e6)
    if name != UNFOLDED:
        buffered = max(count // 10, PER_ROOT[name])
        agent.ask("emit", buffered, PER_ROOT[name])
        seconds = agent.ask("buffer", int(name == WITH_CHILD))["cpu_s"]
        taken[f"{CLIENT}, an ack before it is sent, {name}"].append(seconds / buffered * 1e6)


def _flushed(agent: Agent, service: Served, store: Member, count: int, taken: Taken) -> None:
    """Flush each ack by itself, in one thread."""
    make_topology(service, {"message_timeout_ms": WEEK_MS, "dedupe_window_ms": 0})
    agent.ask("emit", count, 1)
    service_s, store_s = service.cpu_s(), store.cpu_s()
    took = agent.ask("flush_each")
    spent = {CLIENT: took["cpu_s"], SERVICE: service.cpu_s() - service_s, REDIS: store.cpu_s() - store_s}
    spent[ALL] = sum(spent.values())
    for part, seconds in spent.items():
        taken[f"{part}, an ack {FLUSHED}"].append(seconds / count * 1e6)


def _import(codes: dict[str, Path], taken: dict[str, Taken]) -> None:
    """See how much processor time a program takes that imports something and ends."""
    httpx_ms = _program("import httpx", baseline.ROOT)
    taken[""]["import httpx"].append(httpx_ms)
    for name, code in codes.items():
        taken[name]["import"].append(max(_program("import httpx, acker_client", code) - httpx_ms, 0.1))


def _program(script: str, code: Path) -> float:
    command = [sys.executable, "-c", f"import time\n{script}\nprint(time.process_time() * 1e3)"]
    own = os.environ | baseline.environment(code)
    return float(subprocess.run(command, capture_output=True, check=True, text=True, env=own).stdout)


def _lines(taken: dict[str, Series], earlier: dict[str, Series], compiled: dict[str, Series]) -> Iterator[Result]:
    for name in PER_ROOT:
        window, rate = "a week" if name == UNFOLDED else NO_WINDOW, taken[f"{name}/s"]
        offered = Series.of([OFFERED] * len(rate.values))
        yield _line(f"acks of one process, {name}", "/s", rate, "offered", offered, window=window)
        for part, beside in BESIDE.items():
            what, base = f"{part}, an ack, {name}", taken[f"{beside}, an ack, {name}"]
            at_most = GOALS.get(name) if part == CLIENT else None
            line = _line(what, "CPU µs", taken[what], beside, base, at_most=at_most, window=window)
            yield from baseline.both(line, earlier.get(what))
            if part != CLIENT or name == UNFOLDED:
                continue
            yield from _compiled_lines(line, earlier.get(what), compiled.get(what))
            what = f"{CLIENT}, an ack before it is sent, {name}"
            line = _line(what, "CPU µs", taken[what], beside, base)
            yield from baseline.both(line, earlier.get(what), ratio_at_most=INTERPRETED_RATIO)
            yield from _compiled_lines(line, earlier.get(what), compiled.get(what), COMPILED_RATIOS[name])
    yield from _flushed_lines(taken, earlier, compiled)
    what, base = "importing acker_client, beyond httpx", taken["import httpx"]
    line = _line(what, "CPU ms", taken["import"], "importing httpx", base, at_most=EXTRA_MS)
    yield from baseline.both(line, earlier.get("import"))


def _flushed_lines(
    taken: dict[str, Series], earlier: dict[str, Series], compiled: dict[str, Series]
) -> Iterator[Result]:
    for part in (CLIENT, SERVICE, REDIS, ALL):
        what, base = f"{part}, an ack {FLUSHED}", taken[f"{ALL}, an ack {FLUSHED}"]
        line = _line(what, "CPU µs", taken[what], ALL, base)
        yield from baseline.both(line, earlier.get(what), ratio_at_most=FLUSHED_RATIOS.get(part))
        if part == CLIENT:
            yield from _compiled_lines(line, earlier.get(what), compiled.get(what), FLUSHED_RATIOS[part])


def _compiled_lines(
    line: Line, earlier: Series | None, compiled: Series | None, at_most: float | None = None
) -> Iterator[Result]:
    """Yield the lines of the compiled client, as that of the interpreted one; the bound is beside the commit."""
    what = line.what.replace(CLIENT, f"{CLIENT}, compiled", 1)
    if compiled is None:
        yield Skipped(group=GROUP, what=what, why=NOT_COMPILED)
        return
    yield from baseline.both(replace(line, what=what, measured=compiled, at_most=None), earlier, ratio_at_most=at_most)


def _line(
    what: str, unit: str, measured: Series, beside: str, base: Series,
    *, at_most: float | None = None, window: str = NO_WINDOW,
) -> Line:  # fmt: skip
    return Line(
        group=GROUP, what=what, unit=unit, measured=measured, beside=beside, base=base, at_most=at_most, window=window
    )
