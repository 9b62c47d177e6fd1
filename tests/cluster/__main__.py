"""Strikes a cluster with faults under load and audits what it had acknowledged: `python -m tests.cluster --help`."""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.cluster.audit import Findings, audit
from tests.cluster.cells import HEAD, Cell
from tests.cluster.faults import FAULTS, SOME, Fault
from tests.cluster.lab import Lab, lab, topologies
from tests.cluster.settings import SETTINGS, Setting

NEEDED = ("ip", "nft", "nsenter", "mkfs.ext4", "mount")
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_begun = time.monotonic()


def main() -> int:
    """Run what was asked for; 1 if a promise was broken, 2 if it cannot be run here."""
    asked = _asked()
    if missing := _missing():
        print(f"tests.cluster: {missing}", file=sys.stderr)
        return 2
    for each in ENDS:
        signal.signal(each, _end)
    faults = [fault for fault in FAULTS if fault.name in (asked.only or [fault.name])]
    settings = [setting for setting in SETTINGS if setting.is_tried(asked.setting)]
    cells = [cell for setting in settings for cell in _tried(faults, setting, keep=asked.keep)]
    failed = sum(bool(cell.broken()) for cell in cells)
    print(HEAD, *(cell.row() for cell in cells), sep="\n")
    _say(f"{len(cells) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _end(number: int, _: object) -> None:
    """End as if failed, so that all is taken away; who is told so twice does not stop that."""
    for each in ENDS:
        signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + number)


def _tried(faults: list[Fault], setting: Setting, *, keep: bool) -> list[Cell]:
    """Set a lab up, and strike it with one fault after the other, until one of them finds no end."""
    folder = Path(tempfile.mkdtemp(prefix="acker-cluster-"))
    cells, left, names = list[Cell](), list(faults), topologies()
    _say(f"{setting.name}: setting up")
    try:
        with lab(folder, setting, shaped=_shaped(faults), power=any(fault.power for fault in faults)) as made:
            while left:
                _say(f"{left[0].name}, {setting.name}: {left[0].what}")
                found = _struck(made.anew(next(names)), left[0])
                cells.append(Cell(fault=left.pop(0), setting=setting, found=found))
                _say(cells[-1].row())
    except Exception:  # noqa: BLE001 - whatever it is, it is told, and the next setting is tried
        keep = True
        traceback.print_exc()
        _say(f"logs are kept in {folder}")
        cells += [Cell(fault=fault, setting=setting, found=None) for fault in left or faults[-1:]]
    finally:
        if not keep:
            shutil.rmtree(folder)
    return cells


def _shaped(faults: list[Fault]) -> frozenset[str]:
    return frozenset(name for fault in faults for name in fault.shaped)


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
    """Describe what this machine lacks; empty if nothing."""
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    programs = [name for name in NEEDED if shutil.which(name) is None]
    return f"missing: {', '.join(programs)} (apt-get install iproute2 nftables e2fsprogs)" if programs else ""


if __name__ == "__main__":
    sys.exit(main())
