"""Stages the troubles of docs/runbook.md, each on an acker of its own."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from acker_client import Acker
from acker_service.http.keys import digest_of

from bench.servers import one
from tests.support.receivers import Planned, Receiver, served
from tests.support.servers import AckerProcess, acker_serve
from tests.support.waiting import eventually_true

OPERATOR, FORMER = "acker_operator", "acker_former"
"""Keys of the acker with keys: one that is in its file, one that is in it no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """An acker in trouble, and the variables for the command line that the operator has."""

    acker: AckerProcess
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables with the acker's address."""
        return {"ACKER_URL": self.acker.url, **self.environment}


Stage = Callable[[Path], Any]
"""Takes a folder for its files; returns a context manager of the scene."""


@contextmanager
def _serving(folder: Path, *options: str, **environment: str) -> Iterator[AckerProcess]:
    with acker_serve(folder, "--data-dir", str(folder / "data"), *options, environment=environment) as acker:
        acker.http.put("/v1/topologies/orders", json={"message_timeout_ms": 600_000, "trace": 1})
        yield acker


def _emit(client: Acker, count: int, *, components: tuple[str, ...] = (), first: int = 1) -> None:
    """Emit orders; these components ack each of them, and hand its work to the next, which is silent."""
    spout = client.shared_spout("shop")
    for number in range(first, first + count):
        with spout.emit(message_id=str(number)) as root:
            headers = root.headers()
        for component in components:
            with client.receive(headers, component=component) as tup:
                headers = tup.headers()
            client.flush()  # else acks of several components, each elsewhere in truth, would be folded into one


def _read(client: Acker, *, outcome: str | None = None, count: int) -> None:
    """Read and release so many completions of the shop."""
    read = []
    for completion in client.shared_spout("shop").completions(stop=lambda: len(read) >= count, poll_timeout=1):
        assert outcome in (None, completion.outcome)
        read.append(completion)


@contextmanager
def nothing_ends(folder: Path) -> Iterator[Scene]:
    """59 orders were charged and reserved; the bolt that ships them is silent."""
    with _serving(folder) as acker, Acker(acker.url, "orders") as client:
        _emit(client, 59, components=("charge", "reserve"))
        yield Scene(acker=acker)


@contextmanager
def roots_time_out(folder: Path) -> Iterator[Scene]:
    """Orders that were charged are lost, and their message timeout is over."""
    with _serving(folder) as acker, Acker(acker.url, "orders") as client:
        acker.http.put("/v1/topologies/orders", json={"message_timeout_ms": 1_000})
        _emit(client, 40, components=("charge",))
        _read(client, outcome="timed_out", count=40)
        yield Scene(acker=acker)


@contextmanager
def acked_too_often(folder: Path) -> Iterator[Scene]:
    """Every order is for two bolts, and the queue of one of them delivers it twice; there is no dedupe window."""
    with _serving(folder) as acker, Acker(acker.url, "orders", linger=0) as client:
        acker.http.put("/v1/topologies/orders", json={"message_timeout_ms": 1_000, "dedupe_window_ms": 0})
        for number in range(10):
            with client.shared_spout("shop").emit(message_id=str(number)) as root:
                charge, ship = root.headers("charge"), root.headers("ship")
            for component, headers in (("charge", charge), ("charge", charge), ("ship", ship)):
                with client.receive(headers, component=component):
                    pass
        _read(client, outcome="timed_out", count=10)
        yield Scene(acker=acker)


@contextmanager
def roots_fail(folder: Path) -> Iterator[Scene]:
    """The bolt that charges has no right to: it fails 12 of 40 orders."""
    with _serving(folder) as acker, Acker(acker.url, "orders") as client:
        for number in range(40):
            with client.shared_spout("shop").emit(message_id=str(number)) as root:
                headers = root.headers()
            with suppress(PermissionError), client.receive(headers, component="charge"):
                if number < 12:
                    raise PermissionError("the token has expired")
        _read(client, count=40)
        yield Scene(acker=acker)


@contextmanager
def one_message_is_missing(folder: Path) -> Iterator[Scene]:
    """Orders are charged and shipped one after the other, but order 42 was never shipped."""
    with _serving(folder) as acker, Acker(acker.url, "orders") as client:
        _emit(client, 1, components=("charge",), first=42)
        with _repeated(partial(_ship, client)):
            yield Scene(acker=acker)


def _ship(client: Acker) -> None:
    """Emit an order, let all its bolts ack it, and read its completion."""
    with client.shared_spout("shop").emit(message_id="another") as root:
        headers = root.headers()
    with client.receive(headers, component="charge"):
        pass
    client.flush()
    _read(client, count=1)


@contextmanager
def store_full(folder: Path) -> Iterator[Scene]:
    """The memory that Redis may use is less than what it uses already."""
    with one(folder / "valkey") as valkey, acker_serve(folder, "--redis-url", valkey.url) as acker:
        acker.http.put("/v1/topologies/orders")
        valkey.ask("CONFIG SET", "maxmemory", 1 << 20)
        yield Scene(acker=acker)
        valkey.ask("CONFIG SET", "maxmemory", 0)


@contextmanager
def redis_away(folder: Path) -> Iterator[Scene]:
    """Redis was killed."""
    with one(folder / "valkey") as valkey, acker_serve(folder, "--redis-url", valkey.url) as acker:
        valkey.stop()
        yield Scene(acker=acker)


@contextmanager
def mailbox_grows(folder: Path) -> Iterator[Scene]:
    """Orders are done, and no process reads that; the mailbox is full."""
    with _serving(folder, "--mailbox-max", "50") as acker, Acker(acker.url, "orders") as client:
        spout = client.shared_spout("shop")
        for number in range(50):
            with spout.emit(message_id=str(number)):
                pass  # no bolt: it is acked at once
        yield Scene(acker=acker)


@contextmanager
def webhook_not_delivered(folder: Path) -> Iterator[Scene]:
    """The receiver of the shop answers 500; of the first completion no try is left."""
    receiver = Receiver()
    receiver.plan.extend([Planned(status=500)] * 2)
    with (
        served(receiver) as port,
        _serving(folder, "--callback-allow-cidrs", "127.0.0.0/8", "--callback-schedule-s", "0.1") as acker,
        Acker(acker.url, "orders") as client,
    ):
        shop = "/v1/topologies/orders/spouts/shop"
        callback = {"kind": "webhook", "url": f"http://127.0.0.1:{port}/acker"}
        acker.http.put(shop, json={"callback": callback}).raise_for_status()
        with client.shared_spout("shop").emit(message_id="41"):
            pass
        eventually_true(lambda: acker.http.get(shop).json()["dead_letters"] == 1)
        acker.http.post(f"{shop}/pause").raise_for_status()
        with client.shared_spout("shop").emit(message_id="42"):
            pass
        yield Scene(acker=acker)


@contextmanager
def overloaded(folder: Path) -> Iterator[Scene]:
    """More requests wait than the process lets in."""
    with _serving(folder, "--max-waiting", "1") as acker, httpx.Client(base_url=acker.url, timeout=30) as http:
        waiting = "/v1/topologies/orders/spouts/shop/completions"
        acker.http.put("/v1/topologies/orders/spouts/shop")

        def wait() -> None:
            http.get(waiting, params={"wait_ms": 2_000})

        with _repeated(wait), _repeated(wait):
            yield Scene(acker=acker)


@contextmanager
def time_stands_still(folder: Path) -> Iterator[Scene]:
    """An api runs, and no worker; an order is overdue."""
    with one(folder / "valkey") as valkey, acker_serve(folder, "--redis-url", valkey.url, "--role", "api") as acker:
        acker.http.put("/v1/topologies/orders", json={"message_timeout_ms": 100})
        with Acker(acker.url, "orders") as client:
            _emit(client, 1, components=("charge",))
        yield Scene(acker=acker)


@contextmanager
def keys(folder: Path) -> Iterator[Scene]:
    """The file of keys was broken by its last change."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "keys.json"
    entry = {"name": "operator", "sha256": digest_of(OPERATOR).hex(), "scope": "admin", "topologies": "*"}
    file.write_text(json.dumps({"keys": [entry]}))
    with acker_serve(folder, "--data-dir", str(folder / "data"), "--keys-file", str(file)) as acker:
        file.write_text(json.dumps({"keys": [entry | {"scope": "everything"}]}))
        yield Scene(acker=acker, environment={"ACKER_API_KEY": OPERATOR})


@contextmanager
def _repeated(work: Callable[[], None]) -> Iterator[None]:
    """Do it again and again in a thread until the block is left."""
    stopping = threading.Event()

    def run() -> None:
        while not stopping.is_set():
            with suppress(httpx.HTTPError):
                work()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(30)


@contextmanager
def early_roots_fill(folder: Path) -> Iterator[Scene]:
    """A program fails orders that no spout emitted."""
    with _serving(folder, "--early-max-bytes", "65536") as acker:
        fails = [{"op": "fail", "root_id": f"{root:016x}", "reason": "stray"} for root in range(1, 1_001)]
        acker.http.post("/v1/topologies/orders/batch", json={"ops": fails}).raise_for_status()
        yield Scene(acker=acker)


@contextmanager
def remembered_edges_fill(folder: Path) -> Iterator[Scene]:
    """A program acked ever new edges of one order, which has ended since: a pending one would be silent by and by."""
    with _serving(folder, "--remembered-max-bytes", "1048576") as acker:
        acker.http.put("/v1/topologies/orders", json={"dedupe_window_ms": 600_000}).raise_for_status()
        edges, left = [f"{edge:016x}" for edge in range(1, 20_001)], 1 << 60
        root = {"root_id": f"{1:016x}"}
        init = {"spout_task": "shop", "ack_val": f"{left:016x}"}
        acker.http.post("/v1/topologies/orders/init", json=root | init).raise_for_status()
        for first in range(0, len(edges), 5_000):
            acks = [{"op": "ack", "ack_val": edge, "edge_id": edge} | root for edge in edges[first : first + 5_000]]
            sent = acker.http.post("/v1/topologies/orders/batch", json={"ops": acks}).raise_for_status()
            for ack, state in zip(acks, sent.json()["results"], strict=True):
                left ^= int(ack["ack_val"], 16) if state == "pending" else 0
        ended = acker.http.post("/v1/topologies/orders/ack", json=root | {"ack_val": f"{left:016x}"})
        assert ended.raise_for_status().json()["state"] == "acked"
        yield Scene(acker=acker)


TROUBLES: dict[str, Stage] = {
    "nothing-ends": nothing_ends,
    "roots-time-out": roots_time_out,
    "roots-fail": roots_fail,
    "one-message-is-missing": one_message_is_missing,
    "store-full": store_full,
    "early-roots-fill": early_roots_fill,
    "remembered-edges-fill": remembered_edges_fill,
    "redis-away": redis_away,
    "mailbox-grows": mailbox_grows,
    "webhook-not-delivered": webhook_not_delivered,
    "overloaded": overloaded,
    "time-stands-still": time_stands_still,
    "keys": keys,
}
"""Each trouble by the name of its entry."""
