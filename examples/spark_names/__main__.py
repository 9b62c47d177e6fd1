"""The command line of the names: ``python -m examples.spark_names --help``."""

import argparse
import sys

from examples.spark_names.plan import Plan
from examples.spark_names.run import run
from examples.support.stopping import until_stopped


def parse(arguments: list[str]) -> Plan:
    """Read the command line. Exits with 2 and a sentence about what is wrong with it."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.spark_names",
        description="Greet names on Spark, where one throws and one fails; exit 0 if the trees end as they must.",
    )
    parser.add_argument("--within-s", type=float, default=900.0, help="give up after so many seconds [900]")
    careless = "take what goes wrong in greeting for done: the proof must fail"
    parser.add_argument("--careless", action="store_true", help=careless)
    return Plan(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    plan = parse(sys.argv[1:])
    sys.exit(until_stopped(lambda: run(plan)))
