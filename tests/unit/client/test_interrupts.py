"""A signal handler raises anywhere in an ack (as the soft time limit of Celery does), and no lock is held for ever."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from acker_client import Acker
from acker_client.testing import MemoryAcker

from tests.unit.client.conftest import met

INTERRUPTS = 300
WITHIN_S = 10
"""How long a buffer may take that nobody holds."""

SENDER = """
import os, random, signal, time
while True:
    time.sleep(random.uniform(0.0003, 0.001))
    os.kill({pid}, signal.SIGUSR1)
"""


class Interrupted(BaseException):
    """What the handler raises."""


class Interrupts:
    """Another process sends a signal each millisecond or so; the next one raises while this ``is_armed``."""

    is_armed = False

    def handle(self, *_: object) -> None:
        if self.is_armed:
            self.is_armed = False
            raise Interrupted


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    made = Interrupts()
    before = signal.signal(signal.SIGUSR1, made.handle)
    gc.disable()  # what raises in its callbacks, which others have set, goes nowhere
    with subprocess.Popen([sys.executable, "-c", SENDER.format(pid=os.getpid())]) as sender:
        yield made
        sender.kill()
    gc.enable()
    signal.signal(signal.SIGUSR1, before)


def is_free(acker: Acker) -> bool:
    """Whether another thread can hold the buffer, and lets go of it again."""
    look = threading.Thread(target=acker._submitter.flusher.buffer.holds_any, args=([],), daemon=True)
    look.start()
    look.join(WITHIN_S)
    return not look.is_alive()


def test_no_interrupt_leaves_the_buffer_locked(
    connect: Callable[..., Acker], service: MemoryAcker, interrupts: Interrupts
) -> None:
    acker = met(connect(linger=86_400), service)
    headers = {"Acker-Anchors": "00 default 00000000000000aa-00000000000000bb"}
    acker.receive(headers, component="count").ack()  # the flusher is started
    for _ in range(INTERRUPTS):
        tuples = [acker.receive(headers, component="count") for _ in range(800)]
        with contextlib.suppress(Interrupted):
            interrupts.is_armed = True
            for tup in tuples:
                tup.ack()
            interrupts.is_armed = False
        assert is_free(acker)
    acker._submitter.flusher.buffer.clear()
    acker.close()
