"""A load on an acker by callers of six kinds, which knows each completion that is lost, early or wrong."""

import contextlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from acker_protocol import routes

from tests.kubernetes.calls import (
    AGAIN_S,
    FAULTS,
    REPEATS_S,
    TIMEOUT_S,
    Account,
    Caller,
    Failure,
    HttpxLink,
    Link,
    RawLink,
    authorization,
    broken,
    refused,
)

PAUSE_S = 0.1
"""Between two roots of a caller; six callers send two requests for each, about 100 a second in all."""

MESSAGE_TIMEOUT_MS = 600_000
"""Longer than any request is sent again: a root that times out is a fault."""

POLL, STREAM, HOOK = "poll", "stream", "hook"
"""Spout tasks, by how their completions are read."""

TASKS = (POLL, STREAM, HOOK)
KINDS = ("fresh", "httpx", "kept", "long poll", "event stream")
"""Kinds of callers. The sixth is called: the receiver of webhooks."""

Delivered = Callable[[], list[tuple[str, str, float]]]
"""Returns what the webhook's receiver got: the root, its outcome and the time."""


@dataclass(slots=True, kw_only=True)
class Load:
    """Spouts that open a connection for each request, keep one, or use httpx; a long poll, a stream and a webhook."""

    url: str
    topology: str
    token: str = ""
    ackers: int = 2
    account: Account = field(default_factory=Account)
    acked: set[str] = field(default_factory=set)
    """Roots whose ack was answered."""

    completed: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Roots whose completion came, with its outcome and the time at which it first did."""

    _last: str = ""
    _sent: dict[str, float] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)
    _end: threading.Event = field(default_factory=threading.Event)
    _spouts: list[threading.Thread] = field(default_factory=list)
    _readers: list[threading.Thread] = field(default_factory=list)

    def start(self, webhook: str) -> None:
        """Make the topology and the webhook, and start all callers."""
        document = {"ackers": self.ackers, "message_timeout_ms": MESSAGE_TIMEOUT_MS}
        with self._caller("setting up", RawLink(self.url, keeps=True)) as caller:
            caller.ask("PUT", routes.topology(self.topology), document)
            callback = {"callback": {"kind": "webhook", "url": webhook}}
            for task, spout in ((POLL, {}), (STREAM, {}), (HOOK, callback)):
                assert caller.ask("PUT", routes.spout(self.topology, task), spout), self.account.failures
        self.account = Account()
        links: dict[str, Callable[[], Link]] = {
            "fresh": lambda: RawLink(self.url, keeps=False),
            "httpx": lambda: HttpxLink(self.url),
            "kept": lambda: RawLink(self.url, keeps=True),
        }
        for kind, make in [*links.items()] * 2:
            self._spouts.append(threading.Thread(target=self._emit, args=(kind, make)))
        self._readers = [threading.Thread(target=each) for each in (self._poll, self._follow)]
        for thread in (*self._spouts, *self._readers):
            thread.start()

    def stop(self, delivered: Delivered) -> None:
        """Stop the spouts, wait until every root that was acked is completed, and stop the readers."""
        self._over.set()
        for thread in self._spouts:
            thread.join()
        until = time.monotonic() + REPEATS_S
        while self.lost() and time.monotonic() < until:
            for root, outcome, at in delivered():
                self._note(root, outcome, at)
            time.sleep(AGAIN_S)
        self.end()

    def end(self) -> None:
        """End all callers, whatever they still wait for."""
        self._over.set()
        self._end.set()
        for thread in (*self._spouts, *self._readers):
            thread.join()

    def lost(self) -> list[str]:
        """Return the roots that were acked, and of which nobody was told."""
        return sorted(self.acked - self.completed.keys())

    def wrong(self) -> list[tuple[str, str]]:
        """Return the roots whose completion came before their ack was sent, or has another outcome than acked."""
        never = float("inf")
        return sorted(
            (root, outcome)
            for root, (outcome, at) in self.completed.items()
            if outcome != "acked" or at < self._sent.get(root, never)
        )

    @contextlib.contextmanager
    def _caller(self, kind: str, link: Link) -> Iterator[Caller]:
        with contextlib.closing(link):
            yield Caller(kind=kind, link=link, account=self.account, token=self.token)

    def _note(self, root: str, outcome: str, at: float) -> None:
        self.completed.setdefault(root, (outcome, at))

    def _emit(self, kind: str, make: Callable[[], Link]) -> None:
        with self._caller(kind, make()) as caller:
            number = 0
            while not self._over.is_set():
                self._take_root(caller, TASKS[number % len(TASKS)])
                number += 1
                time.sleep(PAUSE_S)

    def _take_root(self, caller: Caller, task: str) -> None:
        """Init and ack."""
        root, edge = secrets.token_hex(8), secrets.token_hex(8)
        init = {"root_id": root, "spout_task": task, "edges": [edge]}
        if caller.ask("POST", routes.operation(self.topology, "init"), init) is None:
            return
        self._sent[root] = time.time()
        ack = {"root_id": root, "edge_id": edge}
        if caller.ask("POST", routes.operation(self.topology, "ack"), ack) is not None:
            self.acked.add(root)

    def _poll(self) -> None:
        path, after = routes.completions(self.topology, POLL), ""
        with self._caller("long poll", RawLink(self.url, keeps=True)) as caller:
            while not self._end.is_set():
                page = caller.ask("GET", f"{path}?wait_ms=5000{after}")
                if page and page["completions"]:
                    self._note_all(page["completions"])
                    after = f"&after={page['cursor']}"
                    caller.ask("POST", routes.release(self.topology, POLL), {"cursor": page["cursor"]})

    def _follow(self) -> None:
        """Read a stream of events, which is begun again a second after it has ended, from where it was."""
        while not self._end.is_set():
            self.account.requests["event stream"] += 1
            try:
                for name, text in self._events():
                    if name == "problem":
                        self.account.fail("event stream", refused("GET events", 200, text.encode()))
                    else:
                        self._note_all([json.loads(text)])
            except _Refused as fault:
                self.account.fail("event stream", fault.failure)
            except FAULTS as fault:
                self.account.fail("event stream", broken("GET events", fault))
            time.sleep(1.0)

    def _events(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the data of each event after the last one. Raises `_Refused`, or one of `FAULTS`."""
        headers = authorization(self.token) | {"Accept": "text/event-stream"}
        headers |= {"Last-Event-ID": self._last} if self._last else {}
        path = self.url + routes.completions(self.topology, STREAM)
        with httpx.stream("GET", path, headers=headers, timeout=TIMEOUT_S, trust_env=False) as answer:
            if not answer.is_success:
                raise _Refused(refused("GET events", answer.status_code, answer.read()))
            name = ""
            for line in answer.iter_lines():
                if self._end.is_set():
                    return
                field, _, value = line.partition(": ")
                if field == "event":
                    name = value
                elif field == "data":
                    yield name, value
                elif field == "id":
                    self._last = value

    def _note_all(self, completions: list[dict[str, Any]]) -> None:
        for completion in completions:
            self._note(completion["root_id"], completion["outcome"], time.time())


class _Refused(Exception):
    """A stream that was answered with a problem."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
