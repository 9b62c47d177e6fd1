"""Run a cluster until Ctrl-C, or for as long as a command runs: python -m tests.kubernetes [--nodes N] [-- COMMAND…].

The command finds kubectl, helm and helm3 on its PATH, and they find the cluster.
"""

import argparse
import logging
import shlex
import signal
import subprocess
import sys
import threading

from tests.kubernetes import layout
from tests.kubernetes.cluster import Cluster, cluster
from tests.kubernetes.requirements import missing


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kubernetes", description="Run a Kubernetes on this machine.")
    parser.add_argument("--nodes", type=int, default=2, choices=(1, 2), help="how many nodes it has (default 2)")
    parser.add_argument("command", nargs="*", help="what to run in it; without one, it runs until Ctrl-C")
    given = parser.parse_args()
    if lacks := missing():
        return _fail(f"no cluster can run here: {lacks}")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell lets what it runs in the background ignore SIGINT
        signal.signal(number, signal.default_int_handler)
    try:
        with cluster(given.nodes) as made:
            return subprocess.call(given.command, env=made.environment) if given.command else _wait(made)
    except KeyboardInterrupt:
        return _fail("interrupted; the cluster is gone")


def _wait(made: Cluster) -> int:
    path, config = made.environment["PATH"], layout.keys(made.run) / "admin.conf"
    sys.stdout.write(f"export KUBECONFIG={config} PATH={shlex.quote(path)}\nCtrl-C ends the cluster.\n")
    sys.stdout.flush()
    threading.Event().wait()
    return 0


def _fail(sentence: str) -> int:
    sys.stderr.write(f"{sentence}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
