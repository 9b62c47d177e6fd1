"""Stands in for the Python that Spark Connect starts for the function of a batch: it connects first, and then imports.

Spark gives that process ten seconds to connect, which on a busy machine is less than importing takes. What it runs is
Spark's own module.
"""

import os
import runpy
import socket
import struct
import sys
from pathlib import Path
from typing import Any

WORKER = "foreach_batch_worker"


def install(folder: Path) -> str:
    """Write the program that Spark is to start as its Python, and return its path."""
    program = folder / "python"
    python = sys.executable
    program.write_text(f'#!/bin/sh\ncase "$2" in *{WORKER}) exec {python} {__file__} "$@";; esac\nexec {python} "$@"\n')
    program.chmod(0o755)
    return str(program)


def connect() -> tuple[Any, socket.socket]:
    """Connect to Spark and say its secret, as `pyspark.util.local_connect_and_auth` does."""
    connection = socket.create_connection(("127.0.0.1", int(os.environ["PYTHON_WORKER_FACTORY_PORT"])))
    file = connection.makefile("rwb", 65_536)
    secret = os.environ["PYTHON_WORKER_FACTORY_SECRET"].encode()
    file.write(struct.pack("!i", len(secret)) + secret)
    file.flush()
    (length,) = struct.unpack("!i", file.read(4))
    assert file.read(length) == b"ok"
    return file, connection


def main() -> None:
    """Run ``python -m MODULE`` on a connection that is there."""
    connected = connect()
    import pyspark.util  # noqa: PLC0415 - this is what takes long
    import pyspark.worker_util  # noqa: PLC0415

    for module in (pyspark.util, pyspark.worker_util):
        vars(module)["local_connect_and_auth"] = lambda *_: connected
    _, _, name, *arguments = sys.argv
    sys.argv = [name, *arguments]
    runpy.run_module(name, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
