"""The commands of this distribution.

``acker --help`` imports this module, so it imports the commands themselves when one of them runs.
"""

from collections.abc import Sequence

import acker_client
from acker_client._cli.parsing import Parser, print_line


def version(arguments: Sequence[str]) -> int:
    """Print the version."""
    Parser("version", version.__doc__).parse_args(arguments)
    print_line(acker_client.__version__)
    return 0


def run(arguments: Sequence[str]) -> int:
    """Run a command as a bolt: ack its tuple when it exits with 0, else fail it."""
    from acker_client._cli.run import main  # noqa: PLC0415 - as said above

    return main(arguments, description=run.__doc__)


def anchor(arguments: Sequence[str]) -> int:
    """Anchor a child to the run that this process belongs to, and print its header."""
    from acker_client._cli.anchor import main  # noqa: PLC0415

    return main(arguments, description=anchor.__doc__)


def emit(arguments: Sequence[str]) -> int:
    """Emit a root with one edge, and print its header."""
    from acker_client._cli.roots import emit as main  # noqa: PLC0415

    return main(arguments, description=emit.__doc__)


def join(arguments: Sequence[str]) -> int:
    """Wait until a root is done; exit 0 if it was acked, 10 failed, 11 timed out, 12 still open, 13 unknown."""
    from acker_client._cli.roots import join as main  # noqa: PLC0415

    return main(arguments, description=join.__doc__)


OWN = {"anchor": anchor, "emit": emit, "join": join, "run": run, "version": version}
"""These commands by name."""
