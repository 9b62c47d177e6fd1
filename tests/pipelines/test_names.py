"""The names are run as a user runs them."""

import subprocess
import sys

import pytest

from examples.support.broker import Broker
from tests.support.pages import ROOT

pytestmark = pytest.mark.timeout(400)


def names(*options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "examples.names", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def test_the_tree_of_the_names_completes_though_one_of_them_was_delivered_twice(broker: Broker) -> None:
    run = names("--broker", broker.url)
    assert (run.returncode, run.stderr) == (0, ""), run.stdout
    assert run.stdout.count("  proven  ") == 5
    said = run.stdout.splitlines()
    assert said.index("greet    张飞 is not to be greeted the first time: back to the queue") < said.index(
        "greet    hello 张飞"
    )
    assert sum(line.startswith("greet    hello") for line in said) == 6


def test_the_names_may_be_thrown_at_another(broker: Broker) -> None:
    run = names("--broker", broker.url, "--hard-name", "荀彧")
    assert (run.returncode, run.stderr) == (0, ""), run.stdout
    assert "proven  RabbitMQ delivered 荀彧 again, and nothing else" in run.stdout
