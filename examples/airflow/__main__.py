"""Lands three hours of sales and runs a DAG for those that are whole: ``python -m examples.airflow``; exit 0 if so."""

import argparse
import base64
import json
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
from acker_client import Acker

from examples.airflow.api import AirflowApi
from examples.airflow.producer import SALES
from examples.airflow.producer import Task as Producer
from examples.airflow.receiver import ASSET
from examples.airflow.receiver import Task as Receiver
from examples.airflow.scheduler import NoAirflow, running_airflow
from examples.support.acker import start_acker
from examples.support.ports import free_port
from examples.support.processes import Child, Died, Processes, processes_in
from examples.support.stopping import until_stopped

SHOPS = ("harbour", "market", "station", "town")
FAILING, KILLED, WHOLE = "2026-11-22T12", "2026-11-22T13", "2026-11-22T14"
MESSAGE_TIMEOUT_S = 1_800.0
WITHIN_S = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The acker, Airflow and the folders of a run."""

    processes: Processes
    acker: str
    airflow: AirflowApi
    sales: Path

    def collect(self, hour: str, **troubles: str) -> dict[str, tuple[Producer, Child]]:
        """Collect the batch of an hour: start a producer for each shop, each with a child of the batch."""
        folder = self.sales / "landed" / hour
        folder.mkdir(parents=True)
        started = {}
        with (
            Acker(self.acker) as acker,
            acker.collect(hour, spout="hours", message_timeout=MESSAGE_TIMEOUT_S) as batch,
        ):
            for shop in SHOPS:
                task = Producer(
                    acker=self.acker,
                    headers=batch.headers(key=shop),
                    folder=str(folder),
                    shop=shop,
                    trouble=troubles.get(shop, ""),
                )
                started[shop] = (task, self.produce(hour, task))
        return started

    def produce(self, hour: str, task: Producer) -> Child:
        """Start a producer."""
        name = f"{hour}-{task.shop}"
        return self.processes.start_module(name, "examples.airflow.producer", json.dumps(asdict(task)))

    def start_receiver(self) -> Path:
        """Start the receiver, and have the completions of the hours posted to it; give its ledger."""
        ledger = self.processes.folder / "ledger"
        ledger.touch()
        secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
        task = Receiver(port=free_port(), secret=secret, ledger=str(ledger), airflow=asdict(self.airflow))
        self.processes.start_module("receiver", "examples.airflow.receiver", json.dumps(asdict(task)))
        webhook = {"kind": "webhook", "url": f"http://127.0.0.1:{task.port}/", "secret": secret}
        spout = f"{self.acker}/v1/topologies/default/spouts/hours"
        httpx.put(spout, json={"callback": webhook}, trust_env=False).raise_for_status()
        return ledger

    def events(self) -> list[str]:
        """Return the hours of all events, in their order."""
        return [event["hour"] for event in self.airflow.events(ASSET)]

    def report(self, hour: str) -> dict[str, Any] | None:
        """Read the report of an hour; None if there is none."""
        written = self.sales / "reports" / f"{hour}.json"
        return json.loads(written.read_text()) if written.exists() else None


def run(all_of_it: Run) -> bool:
    """Land three hours; give whether Airflow was told of those that are whole, of each when it was whole."""
    ledger = all_of_it.start_receiver()
    failed = all_of_it.collect(FAILING, market="fail")
    ends(child for _, child in failed.values())
    wait_until(lambda: FAILING in ledger.read_text(), "the end of the hour that failed")

    producers = all_of_it.collect(KILLED, station="hang")
    task, hanging = producers.pop("station")
    ends(child for _, child in producers.values())
    wait_until(lambda: half_is_written(task), "the first half of the sales of the station")
    code = hanging.kill()
    print(f"{hanging.name} is killed, with half of its sales written", flush=True)

    whole = all_of_it.collect(WHOLE)
    ends(child for _, child in whole.values())
    wait_until(lambda: all_of_it.report(WHOLE), "the report of the whole hour")
    before = all_of_it.events()

    redone = all_of_it.produce(KILLED, Producer(**{**asdict(task), "trouble": ""}))
    ends([redone])
    wait_until(lambda: all_of_it.report(KILLED), "the report of the hour whose producer was killed")
    wait_until(lambda: {*all_of_it.airflow.runs("sales_report")} == {"success"}, "the success of the DAG's runs")
    claims = {
        "an hour whose producer gave up failed, and made no event": '"failed"' in ledger.read_text().splitlines()[0]
        and FAILING not in all_of_it.events(),
        "a producer was killed, and no event came before its work was redone": code < 0 and before == [WHOLE],
        "then one event came, the DAG ran once, and the report has every sale": all_of_it.events() == [WHOLE, KILLED]
        and len(all_of_it.airflow.runs("sales_report")) == 2
        and sales_of(all_of_it.report(KILLED)) == dict.fromkeys(SHOPS, SALES),
        "an hour that began later did not wait for it": sales_of(all_of_it.report(WHOLE))
        == dict.fromkeys(SHOPS, SALES),
    }
    for says, holds in claims.items():
        print("  proven" if holds else "  WRONG ", says, sep="  ")
    return all(claims.values())


def ends(producers: Iterable[Child]) -> None:
    """Wait until producers have ended well. Raises `Died`."""
    for each in producers:
        if each.process.wait(WITHIN_S) != 0:
            raise Died(f"{each.name} ended with code {each.process.returncode}:\n{each.tail()}")


def half_is_written(task: Producer) -> bool:
    """Return whether a producer that hangs has written what it writes before."""
    unfinished = Path(task.folder) / f"{task.shop}.unfinished"
    return unfinished.exists() and unfinished.stat().st_size > 0


def sales_of(report: dict[str, Any] | None) -> dict[str, int]:
    """Return how many sales of each shop a report has."""
    return {row["shop"]: row["sales"] for row in (report or {}).get("sales_by_shop", ())}


def wait_until(is_true: Callable[[], object], what: str) -> None:
    """Wait. Raises ``TimeoutError``."""
    until_s = time.monotonic() + WITHIN_S
    while not is_true():
        if time.monotonic() > until_s:
            raise TimeoutError(f"{what} did not come within {WITHIN_S:.0f} s")
        time.sleep(0.2)


def main(arguments: list[str]) -> int:
    """Run it, and return the exit code."""
    argparse.ArgumentParser(prog="python -m examples.airflow", description=__doc__).parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="acker-airflow-") as name, processes_in(Path(name) / "run") as processes:
        sales = Path(name) / "sales"
        sales.mkdir()
        with running_airflow(processes, sales) as airflow:
            print("Airflow runs, and has read the DAG", flush=True)
            acker = start_acker(processes, Path(name) / "acker", "--callback-allow-cidrs", "127.0.0.0/8")
            return 0 if run(Run(processes=processes, acker=acker, airflow=airflow, sales=sales)) else 1


if __name__ == "__main__":
    try:
        sys.exit(until_stopped(lambda: main(sys.argv[1:])))
    except (NoAirflow, Died, TimeoutError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
