"""What tasks have done, counted in a Redis: tasks call it, and tests read it when a root is reported."""

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import redis
from acker_client import Acker
from acker_client.root import EndOnName

ENVIRONMENT = ("QUEUES_BROKER", "QUEUES_MARKS", "QUEUES_ACKER", "QUEUES_TOPOLOGY")
SLOW_S = 0.5
ALL_ENDED = frozenset({"imports"})
"""Scenarios whose roots end when all of their edges have ended."""
FOREIGN_NAMES = ("_private", "crm:sync_contact", "发送.邮件", "发送邮件", "a" * 150, "send mail", "\N{ROCKET}")
"""Names of tasks that are not those of a component."""

BROKER, _MARKS, ACKER_URL, TOPOLOGY = (os.environ.get(name, "") for name in ENVIRONMENT)
_marks = redis.Redis.from_url(_MARKS) if _MARKS else redis.Redis()


def make_acker() -> Acker:
    """Make the client of a worker."""
    return Acker(ACKER_URL, topology=TOPOLOGY)


def done(root: str, work: str) -> None:
    """Note that a piece of work of a root is done."""
    _marks.hincrby(f"done:{root}", work, 1)


def slowly(root: str, work: str) -> None:
    """Do a piece of work that takes a while: a root that is done too early is reported before it."""
    time.sleep(SLOW_S)
    done(root, work)


def count(root: str, what: str) -> int:
    """Count a run, and give how many there were, with this one."""
    return int(_marks.hincrby(f"runs:{root}", what, 1))


def die_once(root: str, where: str) -> None:
    """Kill this process, the first time."""
    if count(root, f"deaths in {where}") == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def emit(scenarios: Mapping[str, Callable[[str], Any]], arguments: Sequence[str]) -> None:
    """Emit a root for each scenario: the arguments are the spout, and each scenario's name with that of its root."""
    with make_acker() as acker:
        for argument in arguments[1:]:
            scenario, root = argument.split(":")
            end_on: EndOnName = "all_ended" if scenario in ALL_ENDED else "first_fail"
            with acker.shared_spout(arguments[0]).emit(message_id=root, end_on=end_on):
                scenarios[scenario](root)
