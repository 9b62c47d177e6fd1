"""A port is given once, and to one process at a time."""

import subprocess
import sys

from examples.support import ports

PROGRAM = """
import sys
from examples.support import ports
ports.PORTS = range(*map(int, sys.argv[1:]))
print(ports.free_port())
"""
OTHERS = 8


def test_no_other_process_is_given_a_port_while_the_one_that_was_given_it_lives() -> None:
    own = ports.free_port()
    command = [sys.executable, "-c", PROGRAM, str(own), str(own + 3)]
    found = [int(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(OTHERS)]
    assert set(found) <= {own + 1, own + 2}
