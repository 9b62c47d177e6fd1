"""Runs the examples of a page of the documentation, and looks whether they give the answers shown.

The examples of one language, from the top of the page to its end, are one program. What it prints up to an answer must
be that answer; behind the last one it must print nothing.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.support.pages import Group, compare, groups
from tests.support.programs import needed

ADDRESS = "http://127.0.0.1:8700"
"""The address in the examples; the only thing that is substituted."""

PATIENCE_S = 240
END = "\x1e"
"""What a program prints at the end of each group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """How the examples of a language are run: by a program, from a file, with a statement that prints ``END``.

    ``blocks`` is the language that the page names; with ``is_typed`` the program reads them from its input, as typed.
    """

    program: str
    suffix: str
    end: str
    begin: str = ""
    options: tuple[str, ...] = ()
    blocks: str = ""
    is_typed: bool = False


HOW = {
    "sh": Language(program="bash", suffix=".sh", end=r"printf '\036'", begin="set -eu"),
    "zsh": Language(  # as somebody types who has set nothing: it takes no comments then
        program="zsh",
        suffix=".zsh",
        end=r"printf '\036'",
        begin="set -eu",
        options=("-f", "-i", "+o", "prompt_sp"),
        blocks="sh",
        is_typed=True,
    ),
    "python": Language(program=sys.executable, suffix=".py", end='print("\\x1e", end="", flush=True)'),
    "js": Language(program="node", suffix=".mjs", end='process.stdout.write("\\x1e");'),
}

STARTS = "acker serve"
SERVE = """
acker serve {options} >acker-serve.log 2>&1 & trap "kill $!; wait" EXIT
until acker health >acker-health.log 2>&1; do kill -0 $! || {{ cat acker-serve.log >&2; exit 1; }}; sleep 0.1; done
"""
"""What a reader does who pastes `acker serve` into a terminal of its own; it ends with the page."""


def run(text: str, language: str, *, url: str, folder: Path) -> None:
    """Run the examples of a page in one language, in a folder, and compare their answers with those shown."""
    blocks = HOW[language].blocks or language
    own = [group for group in groups(text) if blocks in group.examples]
    assert own, f"the page has no example in {language}"
    for group, came in zip(own, outputs(own, language, url=url, folder=folder), strict=True):
        compare(group, came)


def serves(text: str, language: str) -> bool:
    """Whether the examples of a page in one language start an acker of their own."""
    blocks = HOW[language].blocks or language
    return any(example.startswith(STARTS) for group in groups(text) for example in group.examples.get(blocks, ()))


def outputs(own: list[Group], language: str, *, url: str, folder: Path) -> list[str]:
    """Run the examples as one program; give what it printed in each group."""
    how = HOW[language]
    blocks = how.blocks or language
    source = "\n".join([how.begin, *(_program(group.examples[blocks], how) for group in own), ""])
    script = folder / f"examples{how.suffix}"
    script.write_text(source.replace(ADDRESS, url))
    command = [needed(how.program), *how.options, *(() if how.is_typed else (script.name,))]
    typed = script if how.is_typed else Path(os.devnull)
    code, out, complaints = _ended(command, typed=typed, folder=folder, environment=_environment(folder, url))
    assert not re.search(r"^zsh: ", complaints, re.MULTILINE), complaints
    *pieces, rest = out.split(END)
    where = f"of the {language} examples, {len(pieces)} groups of {len(own)} ran"
    assert code == 0, f"{where}; then:\n{rest}\n{complaints}"
    assert rest == ""
    return pieces


def _program(examples: Iterable[str], how: Language) -> str:
    """Put the examples of a group together."""
    return "\n".join([*map(_served, examples), how.end])


def _served(example: str) -> str:
    return SERVE.format(options=example.removeprefix(STARTS)) if example.startswith(STARTS) else example


def _ended(command: list[str], *, typed: Path, folder: Path, environment: dict[str, str]) -> tuple[int, str, str]:
    """Run a program to its end, with a file as its input, and end whatever it has left running."""
    pipe = subprocess.PIPE
    with (
        typed.open() as stdin,
        subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=stdin,
            stdout=pipe,
            stderr=pipe,
            text=True,
            start_new_session=True,
        ) as program,
    ):
        try:
            out, complaints = program.communicate(timeout=PATIENCE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGTERM)
    return program.returncode, out, complaints


def _environment(folder: Path, url: str) -> dict[str, str]:
    """Let the examples find `acker` as it is installed here, and the acker; their own `acker serve` its folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ACKER_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    port = url.rpartition(":")[2]
    no_prompts = {"PS1": "", "PS2": ""}
    own = {"PATH": path, "ACKER_URL": url, "ACKER_PORT": port, "ACKER_DATA_DIR": str(folder / "data")}
    return kept | no_prompts | own
