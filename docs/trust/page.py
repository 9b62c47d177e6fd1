"""Writes docs/trust.md of docs/trust/attacks.toml and the results in docs/trust/runs; says which runs were not made."""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from docs.trust import results

PAGE = results.ROOT / "docs/trust.md"
ATTACKS = Path(__file__).with_name("attacks.toml")

Document = Mapping[str, Any]

HEAD = """\
<!-- tested by tests/docs/test_trust.py -->
# How the promise is attacked

What [the README promises](../README.md) is attacked by tests, by a model that tries every interleaving, by hours of
faults, by mutations and by fuzzers. This page says by which, and how far each went in its last run. `make trust` writes
it of the results that [docs/trust/runs](trust/runs) keeps, and each command here makes its results anew.
"""


def write(folder: Path = results.RESULTS) -> str:
    """Return the page."""
    attacks = tomllib.loads(ATTACKS.read_text(encoding="utf-8"))
    runs = {name: results.read(name, folder) for name in SECTIONS}
    parts = [HEAD, _runs(runs), _clauses(attacks["clauses"])]
    for name, (title, _, section) in SECTIONS.items():
        if run := runs[name]:
            parts.append(f"## {title}\n\n{section(run)}\n\n{_made(run)}\n")
    parts += [_not_promised(attacks), _bugs(attacks["bugs"]), _neighbours(attacks["neighbours"])]
    return "\n".join(parts)


def tests(attacks: Any) -> Iterator[str]:
    """Yield all tests that are named."""
    for name, each in attacks.items() if isinstance(attacks, dict) else enumerate(attacks):
        if name == "tests":
            yield from each
        elif isinstance(each, dict | list):
            yield from tests(each)


def _runs(runs: Mapping[str, Document | None]) -> str:
    rows = [
        (
            f"[{title.lower()}](#{title.lower().replace(' ', '-').replace(',', '')})" if run else title.lower(),
            f"`{run['run']['command'] if run else command}`",
            run["run"]["date"] if run else "this run has not been made",
            f"`{run['run']['commit']}`" if run else "",
            _duration(run["run"]["took_s"]) if run else "",
        )
        for (title, command, _), run in zip(SECTIONS.values(), runs.values(), strict=True)
    ]
    return _table(("run", "made by", "last made", "at commit", "took"), rows)


def _clauses(clauses: Sequence[Document]) -> str:
    parts = ["## The promise, clause by clause\n"]
    for clause in clauses:
        rows = [(attack["what"], _linked(attack["tests"])) for attack in clause["attacks"]]
        parts.append(f"**{clause['name']}.** {clause['promise']}\n")
        parts.append(_table(("what would break it", "the tests that try"), rows))
    return "\n".join(parts)


def _model(run: Document) -> str:
    found = [search for search in run["searches"] if search["broken"]]
    whole = [search for search in run["searches"] if not search["broken"]]
    worlds = sum(search["worlds"] for search in whole)
    sizes = [
        (
            search["scenario"],
            search["faults"],
            "passes" if search["time_passes"] else "stands",
            f"{search['worlds']:,}",
            f"{search['steps']:,}",
            f"{search['cpu_s']:.1f} s",
        )
        for search in whole
    ]
    mistakes = [(search["scenario"], search["broken"], search["story_steps"]) for search in found]
    return "\n".join(
        (
            "Every interleaving of a spout, a queue that delivers again, bolts that crash, requests that are repeated",
            "and come late, two replicas, time, retention, a cap, a mailbox, delivery workers under a lease, and",
            "readers, over the state machine itself ([tests/interleavings](../tests/interleavings)):",
            f"**{worlds:,} worlds, none of which breaks the promise**; {run['memory_mib']:,} MiB.\n",
            _table(("tree", "faults", "time", "worlds", "steps", "CPU"), sizes),
            "It finds each of these known mistakes:\n",
            _table(("mistake", "what it breaks", "after steps"), mistakes),
        )
    ).rstrip()


def _faults(run: Document) -> str:
    total = sum(run["faults"].values())
    latest = run["latest_timeout_s"]
    broken = ("lost", "early", "twice", "premature", "not_linearizable")
    words = (
        "lost",
        "told too early",
        "told twice",
        "timed out before its deadline",
        "with answers that no order explains",
    )
    kinds = sorted(run["faults"].items(), key=lambda each: (-each[1], each[0]))
    audited = ", ".join(f"{word} **{run[name]}**" for name, word in zip(broken, words, strict=True))
    late = "" if latest is None else f" The latest timeout in normal operation came {latest:.2f} s after its deadline."
    stepped = run["rounds_with_own_clocks"]
    clocks = (
        f" In {stepped} of {run['rounds']} rounds each server of the store had a clock of its own, wrong at times by "
        f"up to {run['clocks_stepped_by_s']:g} s; what comes too early by less is not seen there."
        if stepped
        else ""
    )
    return "\n".join(
        (
            f"**{total:,} faults** while client processes ({_listed(run['clients'])}) send",
            f"**{run['operations']:,} operations**;",
            f"each of **{run['roots']:,} roots** is audited from what every client sent and was answered:",
            f"{audited}.{late}{clocks}\n",
            _table(("fault", "times"), kinds),
            _table(("on", "faults"), sorted(run["stores"].items())),
        )
    ).rstrip()


def _soak(run: Document) -> str:
    names = list(run["first"])
    rows = [(name.replace("_", " "), *(_number(run[at][name]) for at in SOAKED)) for name in names]
    grown = ", ".join(run["grown"]) or "nothing"
    return (
        f"{run['minutes']:g} minutes at {run['rate']:,} operations a second, half of what it can do here: "
        f"{grown} grew, and {len(run['keys_left']) or 'no'} keys were left when all had ended.\n\n"
        + _table(("", "after a third", "at the end", "when all has ended"), rows).rstrip()
    )


SOAKED = ("first", "last", "when_all_has_ended")


def _mutations(run: Document) -> str:
    rows = [(f"`{path}`", made, run["noticed"].get(path, 0)) for path, made in sorted(run["made"].items())]
    made, noticed = sum(run["made"].values()), sum(run["noticed"].values())
    unnoticed = "".join(f"\n- not noticed: {rule}" for rule in run["unnoticed"])
    return (
        "Each rule of the state machine and of the store is broken on purpose, and a test has to fail: "
        f"**{noticed:,} of {made:,} were noticed**.{unnoticed}\n\n"
        + _table(("file", "broken", "noticed"), rows).rstrip()
    )


def _fuzz(run: Document) -> str:
    targets = run["targets"].values()
    inputs, found = sum(each["inputs"] for each in targets), sum(len(each["findings"]) for each in targets)
    rows = [
        (
            each["what"],
            f"{each['inputs']:,}",
            _duration(each["seconds"]),
            each["corpus"],
            each["engine"],
            len(each["findings"]),
        )
        for each in targets
    ]
    return (
        f"**{inputs:,} inputs**, {found or 'none'} of which broke anything; those that reach something new are kept in "
        "[tests/fuzz/corpus](../tests/fuzz/corpus), and `make test` tries them.\n\n"
        + _table(("what reads them", "inputs", "in", "kept", "by", "findings"), rows).rstrip()
    )


def _timing(run: Document) -> str:
    rows = [
        (
            each["what"],
            f"{each['first_ns']:,.0f} ns",
            f"{each['last_ns']:,.0f} ns",
            f"{each['t']:,.1f}",
            f"{each['seen_ns']:,.0f} ns",
        )
        for each in run["comparisons"]
    ]
    return (
        "What a caller shows is compared in constant time. Each comparison is made with two values in turns, one wrong "
        "in its first byte and one in its last (of 100 keys: the right one first, or last, which only its holder can "
        "measure), and again with many pairs of such values, each made anew. Beyond 4.5, Student's statistic of the "
        "pairs, t, shows that the times differ; below it no difference was seen, and the last column says how large it "
        "would have had to be. The control ends at the first byte that differs.\n\n"
        + _table(("comparison", "first", "last", "t", "seen from"), rows).rstrip()
    )


def _dependencies(run: Document) -> str:
    audit, packages = run["audit"], run["packages"]
    if audit["vulnerabilities"]:
        said = "Known vulnerabilities: " + ", ".join(audit["vulnerabilities"]) + "."
    elif audit["error"] or not audit["known"]:
        said = "pip-audit could not ask: the registry here has no data on vulnerabilities, and there are none offline."
    else:
        said = f"pip-audit knows {audit['known']} of them, and no vulnerability."
    return f"`make sbom` names the **{packages} packages** of requirements.lock in CycloneDX. {said}"


Section = tuple[str, str, Callable[[Document], str]]
SECTIONS: dict[str, Section] = {
    "model": ("Every interleaving", "make model", _model),
    "model-long": ("Every interleaving, with one fault more", "make model-long", _model),
    "faults": ("Hours of faults", "make faults-long", _faults),
    "soak": ("An hour at half of what it can do", "make soak", _soak),
    "mutations": ("Mutations", "make mutations", _mutations),
    "fuzz": ("Fuzzers", "make fuzz", _fuzz),
    "timing": ("Comparisons in constant time", "make timing", _timing),
    "dependencies": ("Packages", "make audit", _dependencies),
}
"""Of each result its title, the command that makes it, and what it says; in the order of the page."""


def _not_promised(attacks: Document) -> str:
    listed = "\n".join(f"- {each}" for each in attacks["not_promised"]["list"])
    return f"## What is not promised\n\n{listed}\n"


def _bugs(bugs: Sequence[Document]) -> str:
    rows = [(bug["what"], bug["found"], bug["missed"], f"{bug['now']} {_linked(bug['tests'])}") for bug in bugs]
    head = ("the bug", "found", "why tests had missed it", "what would find it now")
    return f"## Bugs that tests had missed\n\n{_table(head, rows)}"


def _neighbours(reports: Sequence[Document]) -> str:
    rows = [
        (each["system"], f"{each['what']} ({each['report']})", f"{each['here']} {_linked(each['tests'])}")
        for each in reports
    ]
    head = ("system", "what was reported", "the same sequence here")
    return f"## Bugs that others reported, tried on Acker\n\n{_table(head, rows)}".rstrip() + "\n"


def _made(run: Document) -> str:
    own = run["run"]
    seed = "" if own["seed"] is None else f", seed {own['seed']}"
    machine = ", ".join(own["machine"].values())
    return (
        f"*{own['date']}, commit `{own['commit']}`{seed}, {_duration(own['took_s'])}; {machine}: `{own['command']}`.*"
    )


def _linked(named: Sequence[str]) -> str:
    links = []
    for test in named:
        path, _, function = test.partition("::")
        text = function or Path(path).stem
        links.append(f"[{text.removeprefix('test_').replace('_', ' ')}](../{path})")
    return ", ".join(links)


def _listed(counts: Mapping[str, int]) -> str:
    *others, last = [f"{count} of {kind}" for kind, count in counts.items()]
    return f"{', '.join(others)} and {last}" if others else last


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3_600:.1f} h"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = (head, ("---",) * len(head), *rows)
    return "".join(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
