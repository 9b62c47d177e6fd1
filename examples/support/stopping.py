"""Ends a program and everything that it has started at SIGTERM, SIGINT and SIGHUP."""

import signal
import sys
from collections.abc import Callable

STOPPED = 128 + signal.SIGINT


def until_stopped(program: Callable[[], int]) -> int:
    """Run a program, and return its exit code, 130 when Ctrl-C or SIGTERM ended it and everything it had started."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return program()
    except KeyboardInterrupt:
        print("Stopped; every process has ended, and the temporary data are gone.", file=sys.stderr)
        return STOPPED
