"""Strikes a cluster with faults under load and audits what it had acknowledged: `python -m tests.cluster --help`."""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.audit import Findings, audit
from tests.cluster.faults import FAULTS, SOME, Fault
from tests.cluster.lab import Lab, lab, topologies
from tests.cluster.settings import SETTINGS, Setting

NEEDED = ("ip", "nft", "nsenter", "mkfs.ext4", "mount")
COLUMNS = ("answered", "lost", "acks_lost", "early", "twice", "refused")
_begun = time.monotonic()


def main() -> int:
    """Run what was asked for; 1 if a promise was broken, 2 if it cannot be run here."""
    asked = _asked()
    if missing := _missing():
        print(f"tests.cluster: {missing}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    faults = [fault for fault in FAULTS if fault.name in (asked.only or [fault.name])]
    settings = [setting for setting in SETTINGS if setting.name in (asked.setting or [setting.name])]
    rows, failed = list[str](), 0
    for setting in settings:
        for fault, found in _strikes(faults, setting, keep=asked.keep):
            broken = _broken(fault, setting, found)
            rows.append("  ".join([_row(fault, setting, found), *broken]))
            failed += bool(broken)
            _say(rows[-1])
    print(f"{'fault':10}{'setting':16}" + "".join(f"{name:>11}" for name in COLUMNS), *rows, sep="\n")
    print(f"{len(rows) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _strikes(faults: list[Fault], setting: Setting, *, keep: bool) -> Iterator[tuple[Fault, Findings]]:
    """Set a lab up, and strike it with one fault after the other."""
    folder = Path(tempfile.mkdtemp(prefix="acker-cluster-"))
    shaped = frozenset(name for fault in faults for name in fault.shaped)
    names = topologies()
    _say(f"{setting.name}: setting up")
    try:
        with lab(folder, setting, shaped=shaped, power=any(fault.power for fault in faults)) as made:
            for fault in faults:
                _say(f"{fault.name}, {setting.name}: {fault.what}")
                yield fault, _struck(made.anew(next(names)), fault)
    except BaseException:
        print(f"logs are kept in {folder}", flush=True)
        keep = True
        raise
    finally:
        if not keep:
            shutil.rmtree(folder)


def _struck(made: Lab, fault: Fault) -> Findings:
    """Load, strike, load on, and audit."""
    made.load.start()
    made.load.reaches(SOME)
    _say("loaded; now it breaks")
    fault.strike(made)
    made.valkeys.settle()
    _say("mended")
    made.load.reaches(SOME)
    made.load.end()
    _say("the load has ended; reading until nothing is pending")
    return audit(made.load, made.replicas[1])


def _broken(fault: Fault, setting: Setting, found: Findings) -> list[str]:
    """Say which promises were broken: never early, under any setting; never lost, under one that promises it."""
    early = ["BROKEN: roots were told early"] if found.early else []
    lost = ["BROKEN: acknowledged inits were lost"] if found.lost else []
    return early + (lost if fault.is_promised_to_lose_nothing(setting) else [])


def _row(fault: Fault, setting: Setting, found: Findings) -> str:
    return f"{fault.name:10}{setting.name:16}" + "".join(f"{getattr(found, name):>11}" for name in COLUMNS)


def _say(words: str) -> None:
    print(f"[{time.monotonic() - _begun:6.1f} s] {words}", flush=True)


def _asked() -> argparse.Namespace:
    described = "\n".join(f"  {fault.name:10} {fault.what}" for fault in FAULTS)
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster",
        description=f"{__doc__}\n\nfaults:\n{described}\n\nOne of each takes about a minute. Needs root.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    faults, settings = [fault.name for fault in FAULTS], [setting.name for setting in SETTINGS]
    for option, names in (("--only", faults), ("--setting", settings)):
        words = f"{', '.join(names)}; repeat it for more"
        parser.add_argument(option, action="append", metavar="NAME", choices=names, help=words)
    parser.add_argument("--keep", action="store_true", help="keep the folders with the logs")
    return parser.parse_args()


def _missing() -> str:
    """Say what this machine lacks; empty if nothing."""
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    programs = [name for name in NEEDED if shutil.which(name) is None]
    return f"missing: {', '.join(programs)} (apt-get install iproute2 nftables e2fsprogs)" if programs else ""


if __name__ == "__main__":
    sys.exit(main())
