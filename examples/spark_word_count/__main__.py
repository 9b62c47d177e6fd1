"""The command line of the word count on Spark: ``python -m examples.spark_word_count --help``."""

import argparse
import sys

from examples.spark_word_count.plan import Plan
from examples.spark_word_count.run import run
from examples.support.stopping import until_stopped

OPTIONS = {
    "--lines": (int, 300, "count so many lines of the book [300]"),
    "--max-pending": (int, 80, "sentences sent and not yet acked, at most [80]"),
    "--hard-word": (str, "prism", "a sentence that says this fails the first time [prism]"),
    "--within-s": (float, 900.0, "give up after so many seconds [900]"),
}


def parse(arguments: list[str]) -> Plan:
    """Read the command line. Exits with 2 and a sentence about what is wrong with it."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.spark_word_count",
        description="Count the words of a book on Spark, with sentences and a batch that fail; exit 0 if proven.",
    )
    for name, (kind, default, help_) in OPTIONS.items():
        parser.add_argument(name, type=kind, default=default, help=help_)
    careless = "append the counts of a batch that is run again, instead of replacing them: the proof must fail"
    parser.add_argument("--careless", action="store_true", help=careless)
    plan = Plan(**vars(parser.parse_args(arguments)))
    try:
        plan.check()
    except ValueError as fault:
        parser.error(str(fault))
    return plan


if __name__ == "__main__":
    plan = parse(sys.argv[1:])
    sys.exit(until_stopped(lambda: run(plan)))
