"""Runs the names: ``python -m examples.names``; exit 0 if the tree has ended as it must."""

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

import pika
from acker_client import Acker
from pika.exceptions import AMQPConnectionError

from examples.names.scenario import MESSAGE, Observed, Scenario
from examples.support.acker import create_topology, start_acker
from examples.support.broker import NoBroker, running_broker
from examples.support.processes import Died, processes_in
from examples.support.stopping import until_stopped

TOPOLOGY = "names"


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.names",
        description="Greet six names of one message; the greeter throws at one, and its queue delivers that one again.",
    )
    names = MESSAGE.split()
    parser.add_argument("--hard-name", choices=names, default="张飞", help="where the greeter throws [张飞]")
    parser.add_argument("--broker", help="the URL of a RabbitMQ that runs; without it one is started")
    return parser.parse_args(arguments)


def prove(observed: Observed, hard_name: str) -> dict[str, bool]:
    """Return what has to be true at the end, and whether it is."""
    names = MESSAGE.split()
    again = [name for name, redelivered in observed.deliveries if redelivered]
    return {
        "two line tuples and six name tuples: one tree of eight edges": len(observed.edges)
        == len(observed.lines) + len(names),
        "each name was greeted once": sorted(observed.greeted) == sorted(names),
        f"RabbitMQ delivered {hard_name} again, and nothing else": again == [hard_name]
        and len(observed.deliveries) == len(names) + 1,
        "when the greeter threw, nothing was sent: the tree was not failed": observed.completions_at_error == [],
        "the tree was acked, once, as the same root": [(done.message_id, done.acked) for done in observed.done]
        == [("the-six", True)],
    }


def main(options: argparse.Namespace) -> int:
    """Run it, and return the exit code."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="acker-names-")))
        broker = options.broker or stack.enter_context(running_broker(folder / "rabbitmq")).url
        url = start_acker(stack.enter_context(processes_in(folder / "run")), folder / "data")
        create_topology(url, TOPOLOGY, dedupe_window=60)
        acker = stack.enter_context(Acker(url, topology=TOPOLOGY))
        connection = stack.enter_context(contextlib.closing(pika.BlockingConnection(pika.URLParameters(broker))))
        observed = Scenario(acker, connection, hard_name=options.hard_name).run()
    claims = prove(observed, options.hard_name)
    for says, holds in claims.items():
        print("  proven" if holds else "  WRONG ", says, sep="  ")
    return 0 if all(claims.values()) else 1


if __name__ == "__main__":
    options = parse(sys.argv[1:])
    try:
        sys.exit(until_stopped(lambda: main(options)))
    except (NoBroker, Died) as error:
        sys.exit(f"{type(error).__name__}: {error}")
    except AMQPConnectionError:
        sys.exit(f"NoBroker: no RabbitMQ answers at {options.broker}")
