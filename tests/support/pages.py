"""Knows a page of the documentation: its examples, in each language a program of its own, and the answers it shows.

A page is groups: examples, then the answer that all of them are shown to give. The examples of one language, from the
top of the page to its end, are one program. What it prints up to an answer must be that answer; behind the last one it
must print nothing.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from pprint import pformat
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
ADDRESS = "http://127.0.0.1:8700"
"""The address in the examples; the only thing that is substituted."""

ANY = "…"
"""Stands in a shown answer for any text."""

VARYING = frozenset({"at_ms", "deadline_at_ms", "age_ms", "complete_latency_ms"})
"""Fields of an answer whose number is another each time."""

ANSWERS = frozenset({"json", "text"})
PATIENCE_S = 90
END = "\x1e"
"""What a program prints at the end of each group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """How the examples of a language are run: by a program, from a file, with a statement that prints ``END``."""

    program: str
    suffix: str
    end: str
    begin: str = ""


LANGUAGES = {
    "sh": Language(program="bash", suffix=".sh", end=r"printf '\036'", begin="set -eu"),
    "python": Language(program=sys.executable, suffix=".py", end='print("\\x1e", end="", flush=True)'),
    "js": Language(program="node", suffix=".mjs", end='process.stdout.write("\\x1e");'),
}

SERVE = """
acker serve {options} >acker-serve.log 2>&1 & trap "kill $!; wait" EXIT
until acker health >acker-health.log 2>&1; do kill -0 $! || {{ cat acker-serve.log >&2; exit 1; }}; sleep 0.1; done
"""
"""What a reader does who pastes `acker serve` into a terminal of its own; it ends with the page."""


@dataclass(slots=True, kw_only=True)
class Group:
    """Examples by language, and the answer they give; ``line`` is where the answer stands."""

    code: dict[str, str] = field(default_factory=dict)
    answer: str = ""
    kind: str = "text"
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A fenced block of a page, as it stands there; ``line`` counts from 1."""

    language: str
    code: str
    line: int


def fences(text: str) -> Iterator[Fence]:
    """Find the fenced blocks of a page. Whatever else renders as one is a fault: it would not be run."""
    lines = enumerate(text.splitlines(), start=1)
    for number, line in lines:
        if not line.lstrip(" >").startswith(("```", "~~~")):
            continue
        opening = re.fullmatch(r"```(\w+)", line)
        assert opening, f"line {number}: {line!r} opens a block that is not run"
        code = []
        for _, inner in lines:
            if inner == "```":
                break
            code.append(inner)
        else:
            raise AssertionError(f"line {number}: the block does not end")
        yield Fence(language=opening[1], code="\n".join(code), line=number)


def groups(text: str) -> list[Group]:
    """Read a page. Every block must be of a language that is run, or an answer to examples before it."""
    found = [Group()]
    for fence in fences(text):
        group = found[-1]
        if fence.language in LANGUAGES:
            code = group.code.get(fence.language, "")
            group.code[fence.language] = f"{code}{_runnable(fence)}\n"
            continue
        assert fence.language in ANSWERS, f"line {fence.line}: {fence.language} is not run"
        assert group.code, f"line {fence.line}: an answer to no example"
        group.answer, group.kind, group.line = fence.code, fence.language, fence.line
        found.append(Group())
    return found


def _runnable(fence: Fence) -> str:
    if fence.language == "sh" and fence.code.startswith("acker serve "):
        return SERVE.format(options=fence.code.removeprefix("acker serve "))
    return fence.code


def run(text: str, language: str, *, url: str, folder: Path) -> None:
    """Run the examples of a page in one language, in a folder, and compare their answers with those shown."""
    own = [group for group in groups(text) if language in group.code]
    assert own, f"the page has no example in {language}"
    for group, came in zip(own, outputs(own, language, url=url, folder=folder), strict=True):
        compare(group, came)


def compare(group: Group, came: str) -> None:
    """Compare an answer that came with the one shown."""
    shown: Any = _values(group.answer) if group.kind == "json" else group.answer.splitlines()
    real: Any = _values(came) if group.kind == "json" else came.splitlines()
    filled = _filled(shown, real)
    assert real == filled, f"line {group.line} shows\n{pformat(filled)}\nbut this came\n{pformat(real)}"


def needed(program: str) -> str:
    """Give the path of a program. Where it is missing the test is skipped, but where CI is set it fails.

    `.ci/run` installs what is missing before it tests; it does not set CI itself, since under that hypothesis draws the
    same examples each time.
    """
    found = shutil.which(program)
    if found is None and os.environ.get("CI") == "true":
        pytest.fail(f"{program} is missing, and .ci/run should have installed it")
    if found is None:
        pytest.skip(f"{program} is not installed: the examples that need it are not run (apt-get install curl nodejs)")
    return found


def outputs(own: list[Group], language: str, *, url: str, folder: Path) -> list[str]:
    """Run the examples as one program; give what it printed in each group."""
    how = LANGUAGES[language]
    source = "\n".join([how.begin, *(f"{group.code[language]}{how.end}" for group in own), ""])
    script = folder / f"examples{how.suffix}"
    script.write_text(source.replace(ADDRESS, url))
    command = [needed(how.program), script.name]
    code, out, complaints = _ended(command, folder=folder, environment=_environment(folder, url))
    *pieces, rest = out.split(END)
    where = f"of the {language} examples, {len(pieces)} groups of {len(own)} ran"
    assert code == 0, f"{where}; then:\n{rest}\n{complaints}"
    assert rest == ""
    return pieces


def _ended(command: list[str], *, folder: Path, environment: dict[str, str]) -> tuple[int, str, str]:
    """Run a program to its end, and end whatever it has left running."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as program:
        try:
            out, complaints = program.communicate(timeout=PATIENCE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGTERM)
    return program.returncode, out, complaints


def _environment(folder: Path, url: str) -> dict[str, str]:
    """Let the examples find `acker` as it is installed here, and their own `acker serve` its port and its folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ACKER_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    return kept | {"PATH": path, "ACKER_PORT": url.rpartition(":")[2], "ACKER_DATA_DIR": str(folder / "data")}


def _values(text: str) -> list[Any]:
    """Read JSON values, one behind the other."""
    decoder, values, rest = json.JSONDecoder(), list[Any](), text.strip()
    while rest:
        value, end = decoder.raw_decode(rest)
        values.append(value)
        rest = rest[end:].lstrip()
    return values


def _filled(shown: Any, real: Any, name: str = "") -> Any:
    """Give what is shown, with that filled in which is another each time."""
    if isinstance(shown, dict) and isinstance(real, dict):
        return {key: _filled(value, real.get(key), key) for key, value in shown.items()}
    if isinstance(shown, list) and isinstance(real, list) and len(shown) == len(real):
        return [_filled(one, other) for one, other in zip(shown, real, strict=True)]
    if isinstance(shown, str) and isinstance(real, str) and ANY in shown:
        pattern = ".*".join(re.escape(part) for part in shown.split(ANY))
        return real if re.fullmatch(pattern, real, re.DOTALL) else shown
    if name in VARYING and type(shown) is int and type(real) is int and real >= 0:
        return real
    return shown
