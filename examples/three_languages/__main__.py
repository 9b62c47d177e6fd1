"""Runs the orders: ``python -m examples.three_languages``; exit 0 if all came through, and none was done too early."""

import argparse
import json
import secrets
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pika

from examples.support.broker import Broker, NoBroker, running_broker
from examples.support.ports import free_port
from examples.support.processes import Child, Died, Processes, processes_in
from examples.support.stopping import until_stopped
from examples.three_languages.programs import NotBuilt, build

PARTS = ("acker", "done", "invoice", "stock", "price", "spout")
"""In the order in which they are started: each before those that call it."""
WITHIN_S = 300.0
PAUSE_S = 0.3
"""After which a part that has ended is started again, as whatever runs services does."""


class Pipeline:
    """All processes of a run. Each can be killed, and one that has ended is started again."""

    def __init__(self, processes: Processes, broker: Broker, commands: dict[str, list[str]]) -> None:
        self._processes = processes
        self._broker = broker
        self._ports = {name: free_port() for name in ("acker", "done", "stock", "price")}
        folder = processes.folder
        python, port = sys.executable, str(self._ports["acker"])
        local = ["--callback-allow-cidrs", "127.0.0.0/8"]
        self._commands = commands | {
            "acker": [
                python,
                "-m",
                "acker_service",
                "serve",
                "--port",
                port,
                "--data-dir",
                str(folder / "data"),
                *local,
            ],
            "spout": [python, "-m", "examples.three_languages.spout"],
        }
        self._files = {name: folder / f"{name}.txt" for name in ("done", "invoices")}
        self._environment = {
            "ACKER_URL": self._url("acker"),
            "BROKER_URL": broker.url,
            "DONE_FILE": str(self._files["done"]),
            "DONE_URL": self._url("done"),
            "INVOICES_FILE": str(self._files["invoices"]),
            "PRICE_URL": self._url("price"),
            "STOCK_URL": self._url("stock"),
            "WEBHOOK_SECRET": f"whsec_{b64encode(secrets.token_bytes(32)).decode()}",
        }
        self._children = {name: self._start(name) for name in PARTS}

    def kill(self, name: str) -> None:
        """Kill a process with SIGKILL, and start it again."""
        print(f"{name} is killed", flush=True)
        if name == "rabbitmq":
            self._broker.kill()
            self._broker.start()
        else:
            self._children[name].kill()
            self._children[name] = self._start(name)

    def tend(self) -> None:
        """Start again what has ended."""
        for name, child in self._children.items():
            if not child.runs:
                time.sleep(PAUSE_S)
                self._children[name] = self._start(name)

    def done(self) -> list[str]:
        """Return the orders that are done."""
        return self._lines("done")

    def invoiced(self) -> list[str]:
        """Return the order of each invoice."""
        return [json.loads(line)["order"] for line in self._lines("invoices")]

    def _lines(self, name: str) -> list[str]:
        """Read the whole lines of a file."""
        file = self._files[name]
        return file.read_text().rpartition("\n")[0].splitlines() if file.exists() else []

    def _start(self, name: str) -> Child:
        port = {"PORT": str(self._ports[name])} if name in self._ports else {}
        return self._processes.start(name, self._commands[name], environment=self._environment | port)

    def _url(self, name: str) -> str:
        return f"http://127.0.0.1:{self._ports[name]}"


def run(broker: Broker, folder: Path, commands: dict[str, list[str]], *, orders: int) -> bool:
    """Run the orders, and kill each process once; give whether everything is as it must be."""
    early = set[str]()
    victims = ["spout", "price", "stock", "invoice", "done", "rabbitmq", "acker"]
    all_orders = [f"order-{number:05d}" for number in range(orders)]
    with processes_in(folder) as processes:
        pipeline = Pipeline(processes, broker, commands)

        def has_done(count: int) -> bool:
            pipeline.tend()
            done = {*pipeline.done()}
            early.update(done - {*pipeline.invoiced()})  # read after it
            return len(done) >= count

        for number, victim in enumerate(victims):
            first, last = orders * number // len(victims), orders * (number + 1) // len(victims)
            publish(broker, all_orders[first:last])
            wait_until(partial(has_done, first + 1))
            pipeline.kill(victim)
        wait_until(partial(has_done, orders))
        invoices = pipeline.invoiced()
    claims = {
        f"all {orders} orders are done, and each has an invoice": {*invoices} == {*all_orders},
        f"none was done before its invoice was written; {len(invoices) - orders} were written again": not early,
        f"killed: {', '.join(victims)}": True,
    }
    for says, holds in claims.items():
        print("  proven" if holds else "  WRONG ", says, sep="  ")
    return all(claims.values())


def publish(broker: Broker, orders: list[str]) -> None:
    """Put orders into their queue, where they survive the broker."""
    with broker.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        channel.confirm_delivery()
        for order in orders:
            channel.basic_publish("", "orders", order.encode(), pika.BasicProperties(delivery_mode=2))


def wait_until(is_true: Callable[[], bool]) -> None:
    """Wait. Raises ``TimeoutError``."""
    until_s = time.monotonic() + WITHIN_S
    while not is_true():
        if time.monotonic() > until_s:
            raise TimeoutError(f"the orders did not get on within {WITHIN_S:.0f} s")
        time.sleep(0.1)


def main(arguments: list[str]) -> int:
    """Run it, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m examples.three_languages", description=__doc__)
    parser.add_argument("--orders", type=int, default=350, help="orders [350]")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="acker-three-languages-") as name:
        folder = Path(name)
        commands = build(folder)
        with running_broker(folder / "rabbitmq") as broker:
            return 0 if run(broker, folder / "run", commands, orders=options.orders) else 1


if __name__ == "__main__":
    try:
        sys.exit(until_stopped(lambda: main(sys.argv[1:])))
    except (NoBroker, NotBuilt, Died, TimeoutError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
