"""The command line of the word count: ``python -m examples.word_count --help``."""

import argparse
import sys

from examples.word_count.demo import run_demo
from examples.word_count.plan import Plan

OPTIONS = {
    "--lines": (int, 0, "count only so many lines of the book [all]"),
    "--split-workers": (int, 2, "split workers [2]"),
    "--count-workers": (int, 2, "count workers [2]"),
    "--max-pending": (int, 100, "lines emitted and not yet acked, at most [100]"),
    "--message-timeout-ms": (int, 3000, "how long the tree of a line may take [3000]"),
    "--within-s": (float, 180.0, "give up after so many seconds [180]"),
    "--seed": (int, 1730, "chooses the line at which a worker dies, and which split worker gets which line [1730]"),
    "--hard-word": (str, "prism", "split workers fail a line that says this the first time they see it [prism]"),
    "--drop-word": (str, None, "make the count workers ack this word without counting it: the proof must fail"),
}


def parse(arguments: list[str]) -> Plan:
    """Read the command line. Exits with 2 and a sentence about what is wrong with it."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.word_count",
        description="Count the words of a book through an acker, with workers that fail and die; exit 0 if proven.",
    )
    for name, (kind, default, help_) in OPTIONS.items():
        parser.add_argument(name, type=kind, default=default, help=help_)
    parser.add_argument("--keep-going", action="store_true", help="begin again after each round, until Ctrl-C")
    plan = Plan(**vars(parser.parse_args(arguments)))
    try:
        plan.check()
    except ValueError as error:
        parser.error(str(error))
    return plan


if __name__ == "__main__":
    sys.exit(run_demo(parse(sys.argv[1:])))
