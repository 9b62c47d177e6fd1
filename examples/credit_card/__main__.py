"""The command line of the credit cards: ``python -m examples.credit_card --help``."""

import argparse
import sys

from examples.credit_card.demo import run_demo
from examples.credit_card.plan import Guarantee, Plan
from examples.support.stopping import until_stopped

OPTIONS = {
    "--orders": (int, 2000, "orders [2000]"),
    "--kills": (int, 8, "how often a process is killed with SIGKILL, besides two at the worst moments [8]"),
    "--fails": (float, 0.10, "share of the charges at which the card service errs [0.10]"),
    "--hangs": (float, 0.02, "share of the charges at which it hangs [0.02]"),
    "--away-s": (float, 10.0, "for how many seconds the database is away [10]"),
    "--authorisers": (int, 2, "authorising workers [2]"),
    "--max-pending": (int, 100, "orders pending at once, at most [100]"),
    "--message-timeout-ms": (int, 10_000, "how long the tree of an order may take [10000]"),
    "--within-s": (float, 600.0, "give up after so many seconds [600]"),
    "--seed": (int, 1, "chooses who is killed when, and what the card service does [1]"),
    "--broker": (str, None, "the URL of a RabbitMQ that runs; without it one is started"),
}


def parse(arguments: list[str]) -> Plan:
    """Read the command line. Exits with 2 and a sentence about what is wrong with it."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.credit_card",
        description="Authorise orders from RabbitMQ while everything fails; exit 0 if what is promised was kept.",
    )
    once = Guarantee.EFFECTIVELY_ONCE
    parser.add_argument("--guarantee", type=Guarantee, choices=list(Guarantee), default=once, help=f"[{once}]")
    without = f"the same as --guarantee {Guarantee.AT_MOST_ONCE}"
    parser.add_argument(
        "--no-acking", dest="guarantee", action="store_const", const=Guarantee.AT_MOST_ONCE, help=without
    )
    for name, (kind, default, help_) in OPTIONS.items():
        parser.add_argument(name, type=kind, default=default, help=help_)
    plan = Plan(**vars(parser.parse_args(arguments)))
    try:
        plan.check()
    except ValueError as error:
        parser.error(str(error))
    return plan


if __name__ == "__main__":
    plan = parse(sys.argv[1:])
    sys.exit(until_stopped(lambda: run_demo(plan)))
