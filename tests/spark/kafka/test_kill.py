"""Drivers between two topics are killed and started again: no tree is stuck, and none is done too early."""

import secrets
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from acker_client import Acker, Anchors
from acker_client.propagate import extract

from examples.support.kafka import KafkaBroker
from tests.spark.driver import OPS_A_REQUEST
from tests.spark.kafka.topics import Record, Topic
from tests.spark.tracked import Tracked, expect_outcomes

pytestmark = pytest.mark.timeout(540)

MESSAGES = 24
REQUESTS = -(-MESSAGES // OPS_A_REQUEST)
FATES = ("written", f"requests:{2 * REQUESTS}", "commit", "none")
"""A driver resets all timeouts, and then acks: the second is killed before the last of its acks."""


def drive(tracked: Tracked, orders: Topic, receipts: Topic, folder: Path, jars: str, fate: str) -> int:
    """Run a driver to its end; give its exit code."""
    command = [sys.executable, "-m", "tests.spark.kafka.charging", tracked.process.url, tracked.topology]
    command += [orders.kafka.address, orders.name, receipts.name, str(folder), jars, fate]
    with (folder / "driver.log").open("ab") as log:
        return subprocess.run(command, stdout=log, stderr=log, check=False, timeout=300).returncode


def anchors_of(found: list[Record]) -> dict[str, Anchors]:
    """The anchors of each receipt, which are the same in all its copies."""
    anchors: dict[str, Anchors] = {}
    for each in found:
        own = extract(each.headers)
        assert own is not None
        assert anchors.setdefault(str(each.key), own) == own
    return anchors


def read(topic: Topic) -> list[Record]:
    return [Record(key=each.key().decode(), headers=each.headers()) for each in topic.read()]


def test_a_driver_between_two_topics_that_is_killed_again_and_again_ends_its_trees_once(
    kafka: KafkaBroker, tracked: Tracked, jars: str, tmp_path: Path
) -> None:
    """Each tree has one edge more, kept open here: without it nobody would see that an ack was applied twice."""
    orders, receipts = (Topic.create(kafka, f"{name}-{secrets.token_hex(4)}") for name in ("orders", "receipts"))
    assert tracked.acker().topology.dedupe_window_ms
    with Acker(tracked.process.url, topology=tracked.topology) as outside:
        spout, held = outside.shared_spout(tracked.spout_task), []
        for number in range(MESSAGES):
            with spout.emit(message_id=str(number)) as root:
                held.append(root.headers(key="held"))
                sent = root.anchor(key="order").kafka_headers()
            orders.produce(Record(key=str(number), value="1", headers=sent))
        killed = [drive(tracked, orders, receipts, tmp_path, jars, fate) for fate in FATES]
        assert killed == [-9, -9, -9, 0], (tmp_path / "driver.log").read_text()

        found = read(receipts)
        assert Counter(each.key for each in found) == {str(number): len(FATES) for number in range(MESSAGES)}
        for anchors in anchors_of(found).values():
            with outside.receive(anchors.headers(), component="receipts"):
                pass
        outside.flush()
        assert tracked.outcomes() == {}
        for headers in held:
            with outside.receive(headers, component="held"):
                pass
        outside.flush()
        expect_outcomes(tracked, {str(number): "acked" for number in range(MESSAGES)})
