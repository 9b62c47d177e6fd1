"""Fuzz everything that reads bytes from outside: `make fuzz`, or ``.venv/bin/python -m tests.fuzz``.

Each target is fuzzed for ``--seconds``. A run that is stopped goes on with the targets that it has not tried yet, and a
further one adds to the inputs of those before, as long as the code under them and the fuzzers stay the same. What
reached something new is kept in `.fuzz`, and the shortest of it in tests/fuzz/corpus, which `make test` tries. An input
that breaks a target is kept there too, so that the tests fail until that is mended. Exits with 1 if there was one.
"""

import argparse
import base64
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from docs.trust import results
from tests.fuzz import corpus
from tests.fuzz.targets import TARGETS, running

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv/fuzz/bin/python"
STATE = ROOT / ".fuzz"
CODE = ("client/src", "service/src", *(f"tests/fuzz/{name}.py" for name in ("decoders", "sockets", "store", "targets")))
MOST_INPUT_BYTES = 4_096
HANGS_S = 60
"""An input that takes longer is a finding."""

_EXECUTED = re.compile(r"^stat::number_of_executed_units: (\d+)$", re.MULTILINE)
_ERROR = re.compile(r"^(?!===|\s)(\w[\w.]*(?:Error|Exception|Warning)?: .*|\w*Error)$", re.MULTILINE)


def main() -> int:
    """Fuzz, keep the figures, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target [60]")
    parser.add_argument("--only", action="append", choices=TARGETS, help="this target; may be given several times")
    options = parser.parse_args()
    run = results.Run(command="make fuzz")
    progress = results.Progress(STATE / "progress.json", CODE)
    for name in options.only or _untried(progress, options.seconds):
        _add(progress, name, _fuzz(name, options.seconds))
        sys.stdout.write(f"{name:10} {_line(progress.done[name])}\n")
        sys.stdout.flush()
    results.keep("fuzz", run.document(took_s=progress.took_s), {"targets": progress.done})
    return 1 if any(target["findings"] for target in progress.done.values()) else 0


def _untried(progress: results.Progress, seconds: int) -> list[str]:
    """Return the targets that were tried for less than so long; all of them where none was."""
    tried = {name: target["seconds"] for name, target in progress.done.items()}
    return [name for name in TARGETS if tried.get(name, 0) < seconds] or list(TARGETS)


def _add(progress: results.Progress, name: str, tried: Mapping[str, Any]) -> None:
    """Add what was tried of a target to what was tried before."""
    before = progress.done.get(name, {"inputs": 0, "seconds": 0, "findings": []})
    added = {field: before[field] + tried[field] for field in ("inputs", "seconds", "findings")}
    progress.add(name, {"what": TARGETS[name].what, **tried, **added}, took_s=tried["seconds"])


def _fuzz(name: str, seconds: int) -> dict[str, Any]:
    """Fuzz one target, and keep what covers most."""
    found, broken = STATE / "corpus" / name, STATE / "broken" / name
    for folder in (found, broken):
        folder.mkdir(parents=True, exist_ok=True)
    for number, each in enumerate(corpus.read(name)):
        (found / f"kept-{number}").write_bytes(each)
    known = set(broken.iterdir())
    with running(TARGETS[name].needs) as address:
        limits = (f"-max_total_time={seconds}", f"-max_len={MOST_INPUT_BYTES}", f"-timeout={HANGS_S}")
        ended = _run(name, address, *limits, f"-artifact_prefix={broken}/", "-print_final_stats=1", str(found))
    executed = _EXECUTED.search(ended.stderr)
    inputs = [path.read_bytes() for path in sorted(set(broken.iterdir()) - known)]
    error = ([*_ERROR.findall(ended.stderr), ended.stderr[-500:]] if ended.returncode else [""])[0]
    if ended.returncode and not inputs:
        raise SystemExit(f"{name} cannot be fuzzed:\n{ended.stderr[-5_000:]}")
    found_by_coverage = [path.read_bytes() for path in found.iterdir()] if TARGETS[name].is_guided else []
    return {
        "inputs": int(executed[1]) if executed else 0,
        "seconds": seconds,
        "engine": f"atheris {_version()}, {'guided by coverage' if TARGETS[name].is_guided else 'unguided'}",
        "corpus": corpus.add(name, inputs, found_by_coverage),
        "findings": [{"input": base64.b64encode(each).decode(), "error": error} for each in inputs],
    }


def _run(name: str, address: str, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [str(PYTHON), "-m", "tests.fuzz.one", name, address, *options]
    return subprocess.run(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", check=False
    )


def _version() -> str:
    site = next((PYTHON.parents[1] / "lib").glob("python*/site-packages"))
    return next(each.version for each in distributions(path=[str(site)]) if each.name == "atheris")


def _line(target: Mapping[str, Any]) -> str:
    broken = "; ".join(found["error"] for found in target["findings"]) or "nothing found"
    return f"{target['inputs']:>12,} inputs in {target['seconds']:,} s, {target['corpus']} kept; {broken}"


if __name__ == "__main__":
    sys.exit(main())
