"""Moving to more ackers, as the page tells it, loses nothing."""

import queue
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from acker_client import Acker, Outcome, ServiceError, topology_of

from tests.support.examples import run
from tests.support.pages import DOCS
from tests.support.servers import AckerProcess, acker_serve
from tests.support.waiting import eventually_true

pytestmark = pytest.mark.timeout(300)

PAGE = DOCS / "more-ackers.md"
SPOUTS = 3
EACH = 100


@pytest.fixture
def acker(tmp_path: Path) -> Iterator[AckerProcess]:
    with acker_serve(tmp_path / "acker", "--data-dir", str(tmp_path / "data")) as acker:
        yield acker


def counts(acker: AckerProcess) -> dict[str, dict[str, int]]:
    return {found["topology"]: found["counts"] for found in acker.http.get("/v1/topologies").json()["topologies"]}


def test_every_root_of_the_page_is_told_once_as_acked(acker: AckerProcess, tmp_path: Path) -> None:
    run(PAGE.read_text(), "python", url=acker.url, folder=tmp_path)
    left = counts(acker)
    assert left.keys() == {"default", "orders-8"}
    assert left["orders-8"]["acked"] == 90
    emitted = (tmp_path / "emitted.txt").read_text().splitlines()
    told = Counter((tmp_path / "completed.txt").read_text().splitlines())
    assert emitted == [f"order-{number}" for number in range(150)]
    assert told == {f"{order} acked": 1 for order in emitted}


class Move:
    """Spouts that emit all the while, bolts that go by the header, one reader for each topology."""

    def __init__(self, url: str) -> None:
        self.old = Acker(url, topology="orders")
        self.new = Acker(url, topology="orders-8")
        self.tuples: queue.Queue[dict[str, str]] = queue.Queue()
        self.moved = Event()
        self.over = Event()
        self.emitted: list[tuple[str, str]] = []
        self.told: Counter[tuple[str, str, Outcome]] = Counter()

    def spout(self, number: int) -> None:
        for message in range(EACH):
            if message == EACH // 2:
                assert self.moved.wait(60), "the move did not come"  # so that some of its messages are left for it
            hand = self.new if self.moved.is_set() else self.old
            with hand.shared_spout("shop").emit(message_id=f"{number}-{message}") as root:
                self.tuples.put(root.headers("charge"))
            self.emitted.append((hand.topology, f"{number}-{message}"))

    def bolt(self, tuples: int) -> None:
        hands = {hand.topology: hand for hand in (self.old, self.new)}
        for _ in range(tuples):
            headers = self.tuples.get(timeout=60)
            with hands[topology_of(headers) or ""].receive(headers, component="charge"):
                pass

    def read(self, hand: Acker) -> str:
        """Read until all is over, and return the code of the problem that ended it before."""
        try:
            for done in hand.shared_spout("shop").completions(poll_timeout=0.5, stop=self.over.is_set):
                self.told[hand.topology, str(done.message_id), done.outcome] += 1
        except ServiceError as problem:
            return problem.code
        return ""


def test_a_move_under_way_loses_nothing_and_tells_nothing_twice(acker: AckerProcess) -> None:
    for name, ackers in (("orders", 2), ("orders-8", 8)):
        acker.http.put(f"/v1/topologies/{name}", json={"ackers": ackers, "message_timeout_ms": 300_000})
    move = Move(acker.url)
    with ThreadPoolExecutor(max_workers=8) as threads, move.old, move.new:
        readers = [threads.submit(move.read, hand) for hand in (move.old, move.new)]
        spouts = [threads.submit(move.spout, number) for number in range(SPOUTS)]
        threads.submit(move.bolt, EACH // 2).result()
        try:
            eventually_true(lambda: len(move.emitted) >= EACH, within=60)
            move.moved.set()
            for spout in spouts:
                spout.result()
            for _ in range(2):  # they begin with half a hundred roots of the old topology, at least, while it is to go
                threads.submit(move.bolt, (SPOUTS * EACH - EACH // 2) // 2)
            eventually_true(lambda: acker.http.delete("/v1/topologies/orders").status_code == 204, within=60)
            assert readers[0].result(timeout=60) == "unknown_topology"
            eventually_true(lambda: move.told.total() >= SPOUTS * EACH, within=60)
        finally:
            move.over.set()
        assert readers[1].result() == ""
    assert Counter(topology for topology, _ in move.emitted).keys() == {"orders", "orders-8"}
    assert move.told == {(topology, message, Outcome.ACKED): 1 for topology, message in move.emitted}
