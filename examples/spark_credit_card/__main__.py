"""The command line of the card payments: ``python -m examples.spark_credit_card --help``."""

import argparse
import sys

from examples.spark_credit_card.plan import Plan
from examples.spark_credit_card.run import run
from examples.support.stopping import until_stopped

OPTIONS = {
    "--orders": (int, 100, "so many orders lie in the queue, at least four times as many as prefetch [100]"),
    "--prefetch": (int, 25, "deliveries the spout holds at most [25]"),
    "--fails": (float, 0.1, "share of the calls that the card service fails [0.1]"),
    "--hangs": (float, 0.02, "share of the calls that it does not answer [0.02]"),
    "--within-s": (float, 900.0, "give up after so many seconds [900]"),
    "--seed": (int, 1, "makes up the orders, and which calls fail [1]"),
}


def parse(arguments: list[str]) -> Plan:
    """Read the command line. Exits with 2 and a sentence about what is wrong with it."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.spark_credit_card",
        description="Authorise card payments on Spark, with a driver and a spout that are killed; exit 0 if proven.",
    )
    for name, (kind, default, help_) in OPTIONS.items():
        parser.add_argument(name, type=kind, default=default, help=help_)
    parser.add_argument("--careless", action="store_true", help="charge without looking first: the proof must fail")
    plan = Plan(**vars(parser.parse_args(arguments)))
    try:
        plan.check()
    except ValueError as fault:
        parser.error(str(fault))
    return plan


if __name__ == "__main__":
    plan = parse(sys.argv[1:])
    sys.exit(until_stopped(lambda: run(plan)))
