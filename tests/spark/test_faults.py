"""Trees end as they must whatever fails on the way: none stuck, none done too early.

Every tree has an edge more that is kept open elsewhere: without it a delta that is applied twice would not be seen,
since the first already ends the tree. Each mechanism is switched off once, to see that it is the one that helps.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from acker_client import RetriesExhausted
from acker_client.config import SystemClock
from acker_client.lowlevel import requests
from acker_protocol.operations import Ack
from acker_spark._batch.collector import BatchState
from acker_spark._batch.columns import EDGE, ROOT, unsigned
from pyspark.sql import functions as F

from tests.spark.driver import OPS_A_REQUEST, SCHEMA
from tests.spark.elsewhere import MESSAGES, Elsewhere, sentences
from tests.spark.tracked import Tracked, expect_outcomes
from tests.support.proxy import Fate, proxied
from tests.support.servers import AckerProcess, acker_serve

pytestmark = pytest.mark.timeout(400)

REQUESTS = 7
"""So many a batch of them writes: its leader, three of inits, three of deltas."""


@pytest.fixture
def lines(spark: Any) -> Any:
    """Sentences, as a batch has them."""
    return spark.createDataFrame([(row["id"], row["sentence"]) for row in sentences()], SCHEMA)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are small."""
    monkeypatch.setattr(requests, "MAX_OPS", OPS_A_REQUEST)


@pytest.fixture
def nameless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deltas do not name their edges, so that nobody can see that one is applied again."""

    def unnamed(state: Any) -> Any:
        return [Ack(root_id=root, ack_val=value) for (root, _), value in state.edges.items()]

    monkeypatch.setattr(BatchState, "deltas", unnamed)


def nothing(batch: Any, batch_id: int, collector: Any) -> None:
    """Do nothing."""


class Broken(httpx.BaseTransport):
    """Breaks down before a certain request that writes, as a driver does that dies there."""

    def __init__(self, at: int) -> None:
        self.left = at
        self._inner = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.left -= request.method == "POST"
        if self.left == 0:
            raise RuntimeError("the driver dies")
        return self._inner.handle_request(request)

    def close(self) -> None:
        self._inner.close()


def dies_and_comes_back(lines: Any, tracked: Tracked, at: int) -> None:
    """Run a batch that dies before a request, and again with its rows in another number of partitions."""
    dying, whole = tracked.acker(query_id="q", transport=Broken(at)), tracked.acker(query_id="q")
    with pytest.raises(RuntimeError, match="the driver dies"):
        dying.foreach_batch(nothing)(dying.root(lines.repartition(3, "sentence"), "id"), 0)
    whole.foreach_batch(nothing)(whole.root(lines.repartition(5, "id"), "id"), 0)


@pytest.mark.parametrize("at", range(1, REQUESTS + 1))
def test_a_batch_that_dies_before_any_of_its_requests_ends_its_trees_when_it_is_run_again(
    lines: Any, tracked: Tracked, small: None, at: int
) -> None:
    elsewhere = Elsewhere(lines, tracked)
    dies_and_comes_back(lines, tracked, at)
    assert elsewhere.let_go() == {"acked": MESSAGES}


def test_without_names_for_its_edges_it_would_leave_trees_stuck(
    lines: Any, tracked: Tracked, small: None, nameless: None
) -> None:
    elsewhere = Elsewhere(lines, tracked)
    dies_and_comes_back(lines, tracked, REQUESTS)
    assert elsewhere.let_go()["pending"] >= OPS_A_REQUEST


def fails_once(marker: str) -> Callable[[Any], Any]:
    """Return a function of a row that fails the first time that it is called at all."""

    def passed(value: Any) -> Any:
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return value
        raise RuntimeError("the task dies")

    return passed


def test_a_task_that_is_tried_again_counts_once(lines: Any, tracked: Tracked, tmp_path: Path) -> None:
    elsewhere = Elsewhere(lines, tracked)
    acker = tracked.acker(query_id="q")
    passed = F.udf(fails_once(str(tmp_path / "once")), "long", useArrow=False)
    rows = acker.root(lines, "id").withColumn("id", passed("id"))
    acker.foreach_rows(lambda out, _: out.collect())(rows, 0)
    assert (tmp_path / "once").exists()
    assert elsewhere.let_go() == {"acked": MESSAGES}


def test_acks_sent_by_the_tasks_themselves_would_leave_trees_stuck_when_one_is_tried_again(
    lines: Any, tracked: Tracked, tmp_path: Path
) -> None:
    elsewhere = Elsewhere(lines, tracked)
    url, marker = f"{tracked.process.url}/v1/topologies/{tracked.topology}/batch", str(tmp_path / "once")
    begin = [
        {"op": "init", "root_id": root, "ack_val": edge, "spout_task": "reader", "message_id": str(one)}
        for one, root, edge in anchors(tracked, lines)
    ]
    tracked.post("/batch", {"ops": begin})

    def send(rows: Any) -> None:
        acks = [{"op": "ack", "root_id": row.root, "ack_val": row.edge} for row in rows]
        httpx.post(url, json={"ops": acks}).raise_for_status()
        fails_once(marker)(None)

    named = lines.sparkSession.createDataFrame(anchors(tracked, lines), "id string, root string, edge string")
    named.repartition(3, "id").foreachPartition(send)
    assert elsewhere.let_go()["pending"] > 0


def anchors(tracked: Tracked, lines: Any) -> list[tuple[str, str, str]]:
    """Return message id, root id and edge id of each message, as the contract writes them."""
    rows = tracked.acker().root(lines, "id").select("id", ROOT, EDGE).collect()
    return [(str(row.id), f"{unsigned(row[ROOT]):016x}", f"{unsigned(row[EDGE]):016x}") for row in rows]


@pytest.mark.parametrize("lost", range(3))
def test_a_reply_that_is_lost_changes_nothing(lines: Any, tracked: Tracked, lost: int) -> None:
    """The leader's, that of the other inits, that of the deltas."""
    elsewhere = Elsewhere(lines, tracked)
    lose_a_reply(lines, tracked, lost)
    assert elsewhere.let_go() == {"acked": MESSAGES}


def test_without_key_and_names_a_lost_reply_would_leave_trees_stuck(
    lines: Any, tracked: Tracked, nameless: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = requests.Request.headers
    monkeypatch.setattr(
        requests.Request, "headers", lambda one: {**headers(one), "Idempotency-Key": os.urandom(8).hex()}
    )
    elsewhere = Elsewhere(lines, tracked)
    lose_a_reply(lines, tracked, 2)
    assert elsewhere.let_go() == {"pending": MESSAGES}


def lose_a_reply(lines: Any, tracked: Tracked, lost: int) -> None:
    """Run a batch, and lose the reply to one of its three requests."""
    left = iter(range(100))
    with proxied(int(tracked.process.url.rpartition(":")[2])) as proxy:
        proxy.once(Fate.DROP, lambda sent: b"POST /v1" in sent and next(left) == lost)
        acker = tracked.acker(query_id="q", url=f"http://127.0.0.1:{proxy.port}")
        acker.foreach_batch(nothing)(acker.root(lines, "id"), 0)
        acker.close()
    assert proxy.fallen == [Fate.DROP]


class Outage(SystemClock):
    """An acker that is down for a minute by a clock of its own: time passes when somebody sleeps."""

    def __init__(self, acker: AckerProcess) -> None:
        self._acker = acker
        self._now = 0.0
        self._back = 0.0

    def begin(self, *_: Any) -> None:
        """Kill it."""
        self._acker.kill()
        self._back = self._now + 60

    def monotonic(self) -> float:
        """Return what time it is."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Let time pass; start it again when the minute is over."""
        self._now += seconds
        if self._now >= self._back and self._acker.process.poll() is not None:
            self._acker.start()
            self._acker.wait_until_ready()


def test_an_acker_that_is_down_for_a_minute_is_waited_for(lines: Any, tmp_path: Path) -> None:
    """Where it is not waited for the query ends, and the next run ends the trees."""
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data")) as process:
        tracked, outage = Tracked(process=process), Outage(process)
        elsewhere = Elsewhere(lines, tracked)
        hasty = tracked.acker(query_id="q", clock=outage, retry_timeout=30.0)
        with pytest.raises(RetriesExhausted):
            hasty.foreach_batch(outage.begin)(hasty.root(lines, "id"), 0)
        outage.sleep(60)
        acker = tracked.acker(query_id="q", clock=outage)
        acker.foreach_batch(outage.begin)(acker.root(lines, "id"), 0)
        assert elsewhere.let_go() == {"acked": MESSAGES}
        tracked.close()


def test_a_message_that_failed_and_comes_again_does_not_come_alive(lines: Any, tracked: Tracked) -> None:
    """Its root was failed by a row that was received; another row of it is acked by a later batch."""
    acker = tracked.acker(query_id="emitter")
    sent: list[Any] = []
    emit = acker.foreach_batch(
        lambda batch, _, collector: sent.extend(
            collector.emit(batch, "topic", key=["copy"]).select(ROOT, EDGE).collect()
        )
    )
    emit(acker.root(lines.where("id = 1"), "id").withColumn("copy", F.explode(F.array(F.lit(1), F.lit(2)))), 0)
    second = tracked.acker(query_id="second")
    rows = lines.sparkSession.createDataFrame([tuple(row) for row in sent], f"{ROOT} long, {EDGE} long")
    one = min(row[EDGE] for row in sent)
    failing = second.foreach_batch(lambda batch, _, collector: collector.fail(batch.where(f"{EDGE} = {one}"), "no"))
    failing(second.received(rows), 0)
    expect_outcomes(tracked, {"1": "failed"})
    second.foreach_batch(nothing)(second.received(rows), 1)
    assert tracked.outcomes() == {"1": "failed"}
    assert tracked.pending() == set()
