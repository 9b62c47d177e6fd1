"""The orders from Kafka are run as a user runs them."""

import subprocess
import sys

import pytest

from tests.support.kafka import need_kafka
from tests.support.pages import ROOT

pytestmark = pytest.mark.timeout(600)


def test_no_order_is_lost_while_every_process_is_killed() -> None:
    need_kafka()
    command = [sys.executable, "-m", "examples.kafka_orders", "--orders", "200"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("  proven  ") == 3
