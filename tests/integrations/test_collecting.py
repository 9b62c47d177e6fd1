"""A sealed batch on a real acker: the rows of the table in docs/batches.md that need one."""

import subprocess
import sys
import time

import pytest
from acker_client import Acker, Completion, Outcome

from tests.support.servers import AckerProcess

pytestmark = pytest.mark.timeout(300)

DYING = """
import os, sys
from acker_client import Acker

with Acker(sys.argv[1], sys.argv[2]) as acker, acker.collect("hour-13", message_timeout=3) as batch:
    print(batch.root_id, flush=True)
    os.kill(os.getpid(), 9)
"""


def completion(client: Acker) -> Completion:
    found: list[Completion] = []
    while not found:
        found = list(client.shared_spout("batches").completions(until=0))
    [only] = found
    return only


def test_a_batch_whose_process_dies_within_the_block_times_out(client: Acker, process: AckerProcess) -> None:
    command = [sys.executable, "-c", DYING, process.url, client.topology]
    died = subprocess.run(command, capture_output=True, text=True, check=False)
    assert died.returncode == -9, died.stderr
    ended = completion(client)
    assert (ended.root_id, ended.outcome) == (died.stdout.strip(), Outcome.TIMED_OUT)


def test_a_block_may_take_longer_than_the_message_timeout(client: Acker) -> None:
    with client.collect("hour-13", message_timeout=8) as batch:
        until = time.monotonic() + 12
        while time.monotonic() < until:
            headers = batch.headers()
            client.receive(headers, component="load").ack()
            time.sleep(0.2)
    ended = completion(client)
    assert (ended.message_id, ended.outcome) == ("hour-13", Outcome.ACKED)


def test_a_child_that_fails_fails_the_batch(client: Acker) -> None:
    with client.collect("hour-13") as batch:
        client.receive(batch.headers(), component="load").fail("no disk")
    assert completion(client).reason == "no disk"


def test_batches_of_producers_are_anchored_to_a_large_one(client: Acker) -> None:
    """Sub-roots: the acks of each producer go to a root of its own."""
    with client.collect("hour-13") as batch:
        parts = {f"part-{number}": batch.headers(key=f"part-{number}") for number in range(2)}
    for name, headers in parts.items():
        tup = client.receive(headers, component="producer")
        with client.collect(name, spout="parts") as part:
            messages = [part.headers() for _ in range(3)]
        for message in messages:
            client.receive(message, component="load").ack()
        done: list[str] = []
        client.shared_spout("parts").listen(on_ack=done.append, stop=lambda: bool(done))  # noqa: B023
        assert done == [name]
        tup.ack()
    assert completion(client).acked
