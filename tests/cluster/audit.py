"""Reads every completion until nothing is pending, and says what became of each init that was answered."""

import contextlib
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import httpx
from acker_protocol import routes

from tests.cluster.load import Load, Root
from tests.cluster.replicas import Replica

WITHIN_S = 900
CLOCK_MS = 2
"""Milliseconds are cut off on both sides."""

Completion = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What became of the roots: how many inits were ``answered``, and how many of these were ``lost``: never told.

    ``early``: told acked before the last ack was sent, or timed out before their time. ``acks_lost``: told timed out
    though all their acks were answered in time. ``twice``: more completions of a root. ``refused``: requests.
    """

    answered: int
    lost: int
    acks_lost: int
    early: int
    twice: int
    refused: int


def audit(load: Load, replica: Replica) -> Findings:
    """Read all that is told, by one replica, and compare it with what was answered."""
    told: dict[int, list[Completion]] = {}
    with replica.http() as http:
        for client in load.clients:
            for completion in read_all(http, client.topology, client.spout_task):
                told.setdefault(int(completion["root_id"], 16), []).append(completion)
    roots = dict(load.roots())
    answered = {id_: root for id_, root in roots.items() if root.is_answered}
    return Findings(
        answered=len(answered),
        lost=sum(id_ not in told for id_ in answered),
        acks_lost=sum(_is_ack_lost(root, told.get(id_, [])) for id_, root in answered.items()),
        early=sum(_is_early(roots[id_], completion) for id_, all_ in told.items() for completion in all_),
        twice=sum(len(all_) - 1 for all_ in told.values()),
        refused=sum(client.refused for client in load.clients),
    )


def read_all(http: httpx.Client, topology: str, spout_task: str) -> list[Completion]:
    """Read a mailbox to its end, once none of its roots is pending any more."""
    read: list[Completion] = []
    after: dict[str, str] = {}
    end = time.monotonic() + WITHIN_S
    while time.monotonic() < end:
        nothing_to_come = _get(http, routes.spout(topology, spout_task)).get("pending") == 0
        page = _get(http, routes.completions(topology, spout_task), limit=10_000, wait_ms=500, **after)
        read += page["completions"]
        after = {"after": page["cursor"]}
        if nothing_to_come and not page["completions"]:
            return read
    raise AssertionError(f"{spout_task}: roots are pending, though all of them are overdue for long")


def _get(http: httpx.Client, path: str, **query: str | int) -> Completion:
    """Ask, again while the store is not there, or no answer comes."""
    end = time.monotonic() + WITHIN_S
    while time.monotonic() < end:
        with contextlib.suppress(httpx.TransportError):
            answer = http.get(path, params=query)
            if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                return dict(answer.raise_for_status().json())
        time.sleep(0.2)
    raise AssertionError(f"{path}: no answer within {WITHIN_S} s")


def _is_early(root: Root, completion: Completion) -> bool:
    at_ms = completion["at_ms"] + CLOCK_MS
    if completion["outcome"] == "acked":
        return root.acked_ms is None or bool(at_ms < root.acked_ms)
    return bool(at_ms < root.sent_ms + root.timeout_ms)


def _is_ack_lost(root: Root, told: list[Completion]) -> bool:
    outcomes = Counter(completion["outcome"] for completion in told)
    return root.acks_answered and not root.held and outcomes["timed_out"] > 0
