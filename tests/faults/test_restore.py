"""Redis is put back from a backup while spouts and bolts go on: the table of docs/durability.md, each row a test.

One drill has all rows: roots of each kind before the backup, more after it, then the backup is put back, and every
client goes on as before, with the keys and cursors that it has.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from acker_protocol import routes

from bench.servers import Member, one
from tests.support.caller import Document, ack, init
from tests.support.receivers import Received, Receiver, served
from tests.support.servers import AckerProcess, acker_serve
from tests.support.waiting import eventually_true

pytestmark = pytest.mark.timeout(300)

TOPOLOGY, LATER = "drill", "made-later"
LONG_MS, SHORT_MS = 300_000, 15_000
E, C = 0xE1, 0xC1
OPEN_ACROSS, ACKED_SINCE, READ_BEFORE, READ_SINCE, EMITTED_SINCE, TOLD_SINCE, OVERDUE = range(0x11, 0x18)
HOOKED, HOOKED_SINCE, AGAIN, EDGE_AGAIN, PARENT, SECOND = range(0x21, 0x27)


@dataclass
class Drill:
    """What every client was answered and told, before and after the backup was put back."""

    acker: AckerProcess
    before: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    after: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    hooked: list[tuple[int, str]] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)

    def send(self, operation: Document, *, key: str | None = None, topology: str = TOPOLOGY) -> str:
        """Send an operation, and return the state that answers it, or the code of the problem."""
        document = {name: value for name, value in operation.items() if name != "op"}
        headers = {routes.IDEMPOTENCY_KEY: key} if key else {}
        answer = self.acker.http.post(routes.operation(topology, operation["op"]), json=document, headers=headers)
        found = answer.json()
        return str(found.get("state") or found["code"])

    def emit(self, root: int, *edges: int, spout: str, key: str | None = None, timeout_ms: int = LONG_MS) -> str:
        """Emit a root."""
        return self.send(init(root, *edges, spout_task=spout, message_timeout_ms=timeout_ms), key=key)

    def page(self, spout: str, **query: str) -> tuple[list[tuple[int, str]], str]:
        """Read a mailbox, and return roots with their outcomes, and the cursor."""
        page = self.acker.http.get(routes.completions(TOPOLOGY, spout), params=query).json()
        return [(int(each["root_id"], 16), each["outcome"]) for each in page["completions"]], page["cursor"]

    def release(self, spout: str, cursor: str) -> None:
        """Release what was read."""
        self.acker.http.post(routes.release(TOPOLOGY, spout), json={"cursor": cursor}).raise_for_status()


def take_backup(store: Member, kept: Path) -> None:
    """Save all data into a file, and keep a copy."""
    store.ask("SAVE")
    shutil.copy(store.folder / "dump.rdb", kept)


def put_back(store: Member, kept: Path) -> None:
    """Stop the server, and start it with the data of the backup."""
    store.stop()
    shutil.copy(kept, store.folder / "dump.rdb")
    store.start()


@contextmanager
def hook(acker: AckerProcess, spout: str) -> Iterator[Receiver]:
    """Let a receiver get the completions of a spout task."""
    receiver = Receiver()
    with served(receiver) as port:
        callback = {"kind": "webhook", "url": f"http://127.0.0.1:{port}/"}
        acker.http.put(routes.spout(TOPOLOGY, spout), json={"callback": callback}).raise_for_status()
        yield receiver


def told(received: list[Received]) -> list[tuple[int, str]]:
    """Return the completions that a receiver got."""
    found: list[Any] = [each for one_post in received for each in one_post.document["data"]["completions"]]
    return [(int(each["root_id"], 16), each["outcome"]) for each in found]


@pytest.fixture(scope="module")
def drill(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    """Do all of it once."""
    folder = tmp_path_factory.mktemp("drill")
    with (
        one(folder / "store") as store,
        acker_serve(folder, "--redis-url", store.url, "--callback-allow-cidrs", "127.0.0.0/8") as acker,
    ):
        rules = {"ackers": 1, "dedupe_window_ms": LONG_MS, "message_timeout_ms": LONG_MS, "retention_ms": LONG_MS}
        acker.http.put(routes.topology(TOPOLOGY), json=rules).raise_for_status()
        with hook(acker, "hook") as receiver:
            drill = Drill(acker)
            _before_the_backup(drill, receiver)
            take_backup(store, folder / "backup")
            _since_the_backup(drill, receiver)
            put_back(store, folder / "backup")
            acker.wait_until_ready()
            _after_it_is_put_back(drill, receiver)
            yield drill


def _before_the_backup(drill: Drill, receiver: Receiver) -> None:
    for root in (OPEN_ACROSS, ACKED_SINCE, READ_BEFORE, READ_SINCE):
        drill.emit(root, E, spout=f"s-{root}")
    drill.emit(OVERDUE, E, spout=f"s-{OVERDUE}", timeout_ms=SHORT_MS)
    drill.emit(HOOKED, E, spout="hook")
    drill.emit(AGAIN, E, spout="again", key="init-again")
    drill.emit(EDGE_AGAIN, E, C, spout="again")
    drill.send(ack(EDGE_AGAIN, E))
    drill.emit(PARENT, E, spout="again")
    for root in (READ_BEFORE, READ_SINCE, HOOKED):
        drill.send(ack(root, E))
    eventually_true(lambda: told(receiver.received) == [(HOOKED, "acked")])
    drill.before["read before"], cursor = drill.page(f"s-{READ_BEFORE}")
    drill.release(f"s-{READ_BEFORE}", cursor)


def _since_the_backup(drill: Drill, receiver: Receiver) -> None:
    for root in (ACKED_SINCE, READ_SINCE):
        drill.send(ack(root, E))
        drill.before[f"{root}"], cursor = drill.page(f"s-{root}")
        drill.release(f"s-{root}", cursor)
        drill.states[f"cursor of {root}"] = cursor
    drill.send(ack(OVERDUE, E))
    drill.before["overdue"], cursor = drill.page(f"s-{OVERDUE}")
    drill.release(f"s-{OVERDUE}", cursor)
    drill.emit(EMITTED_SINCE, E, C, spout=f"s-{EMITTED_SINCE}")
    drill.emit(TOLD_SINCE, E, spout=f"s-{TOLD_SINCE}", key="init-told")
    drill.send(ack(TOLD_SINCE, E), key="ack-told")
    drill.before["told since"], cursor = drill.page(f"s-{TOLD_SINCE}")
    drill.release(f"s-{TOLD_SINCE}", cursor)
    drill.emit(HOOKED_SINCE, E, spout="hook")
    drill.send(ack(HOOKED_SINCE, E))
    eventually_true(lambda: (HOOKED_SINCE, "acked") in told(receiver.received))
    drill.send(ack(PARENT, E, C))
    drill.acker.http.put(routes.topology(LATER), json={}).raise_for_status()
    drill.hooked = told(receiver.received)


def _after_it_is_put_back(drill: Drill, receiver: Receiver) -> None:
    drill.states["open across"] = drill.send(ack(OPEN_ACROSS, E))
    drill.states["emitted since, acked after"] = drill.send(ack(EMITTED_SINCE, E))
    drill.states["init repeated from before"] = drill.emit(AGAIN, E, spout="again", key="init-again")
    drill.states["ack again of an edge from before"] = drill.send(ack(EDGE_AGAIN, E))
    drill.states["child of an ack since"] = drill.send(ack(PARENT, C))
    drill.states["init repeated from since"] = drill.emit(TOLD_SINCE, E, spout=f"s-{TOLD_SINCE}", key="init-told")
    drill.states["ack repeated from since"] = drill.send(ack(TOLD_SINCE, E), key="ack-told")
    drill.states["topology made since"] = drill.send(init(SECOND, E), topology=LATER)
    for root in (OPEN_ACROSS, READ_BEFORE, READ_SINCE, EMITTED_SINCE, TOLD_SINCE):
        drill.after[f"{root}"], _ = drill.page(f"s-{root}")
    drill.after["by its cursor"], _ = drill.page(f"s-{READ_SINCE}", after=drill.states[f"cursor of {READ_SINCE}"])
    drill.after["pending"] = [
        (root, drill.acker.http.get(routes.root(TOPOLOGY, f"{root:016x}")).json().get("state", "unknown"))
        for root in (ACKED_SINCE, PARENT, EMITTED_SINCE)
    ]
    eventually_true(lambda: drill.page(f"s-{OVERDUE}")[0], within=60)
    drill.after["overdue"], _ = drill.page(f"s-{OVERDUE}")
    drill.hooked = told(receiver.received)


def test_a_root_that_was_pending_at_the_backup_and_is_acked_after_it_is_put_back_is_told(drill: Drill) -> None:
    assert drill.states["open across"] == "acked"
    assert drill.after[f"{OPEN_ACROSS}"] == [(OPEN_ACROSS, "acked")]


def test_what_was_read_and_released_before_the_backup_is_not_told_again(drill: Drill) -> None:
    assert drill.before["read before"] == [(READ_BEFORE, "acked")]
    assert drill.after[f"{READ_BEFORE}"] == []


def test_what_was_unread_at_the_backup_and_read_since_is_told_again(drill: Drill) -> None:
    assert drill.before[f"{READ_SINCE}"] == [(READ_SINCE, "acked")] == drill.after[f"{READ_SINCE}"]


def test_a_reader_that_goes_on_at_its_cursor_is_not_told_again(drill: Drill) -> None:
    assert drill.after["by its cursor"] == []


def test_a_root_whose_acks_came_since_is_pending_again_and_times_out_though_it_was_told_acked(drill: Drill) -> None:
    assert drill.before[f"{ACKED_SINCE}"] == [(ACKED_SINCE, "acked")]
    assert dict(drill.after["pending"])[ACKED_SINCE] == "pending"
    assert drill.before["overdue"] == [(OVERDUE, "acked")]
    assert drill.after["overdue"] == [(OVERDUE, "timed_out")]


def test_a_root_that_was_emitted_since_and_not_told_is_never_told(drill: Drill) -> None:
    assert drill.states["emitted since, acked after"] == "early"
    assert dict(drill.after["pending"])[EMITTED_SINCE] != "pending"
    assert drill.after[f"{EMITTED_SINCE}"] == []


def test_a_root_that_was_emitted_and_told_since_is_told_again_only_if_its_requests_are_repeated(drill: Drill) -> None:
    assert drill.before["told since"] == [(TOLD_SINCE, "acked")]
    assert (drill.states["init repeated from since"], drill.states["ack repeated from since"]) == ("pending", "acked")
    assert drill.after[f"{TOLD_SINCE}"] == [(TOLD_SINCE, "acked")]


def test_requests_and_edges_from_before_the_backup_are_remembered(drill: Drill) -> None:
    assert drill.states["init repeated from before"] == "pending"
    assert drill.states["ack again of an edge from before"] == "duplicate"


def test_a_child_whose_parent_was_acked_since_is_acked_in_vain_and_its_root_times_out(drill: Drill) -> None:
    assert drill.states["child of an ack since"] == "pending"
    assert dict(drill.after["pending"])[PARENT] == "pending"


def test_a_webhook_that_was_delivered_before_the_backup_or_since_is_not_called_again(drill: Drill) -> None:
    assert drill.hooked == [(HOOKED, "acked"), (HOOKED_SINCE, "acked")]


def test_a_topology_that_was_made_since_is_unknown(drill: Drill) -> None:
    assert drill.states["topology made since"] == "unknown_topology"
