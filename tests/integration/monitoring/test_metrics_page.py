"""docs/metrics.md lists every metric that /metrics tells, and no other."""

import re
import sys
from collections import deque
from pathlib import Path

import pytest
from acker_service.components import Components
from acker_service.roots.expiry import _Run

from tests.support.caller import Caller, ack, init
from tests.support.exposition import scrape
from tests.support.tasks import root_expiry
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
LINE = re.compile(r"^\| `(?P<name>\w+)` \| (?P<type>\w+) \| (?P<labels>[`\w ]*?) ?\| (?P<meaning>.+) \|$", re.MULTILINE)

Metrics = dict[str, tuple[str, frozenset[str]]]
"""Type and labels by name."""


def listed() -> Metrics:
    """What the page lists of a service; tests/unit/client/test_prometheus.py has the metrics of a client."""
    lines = [
        line for line in LINE.finditer(PAGE.read_text(encoding="utf-8")) if not line["name"].startswith("acker_client_")
    ]
    found = {line["name"]: (line["type"], frozenset(re.findall(r"\w+", line["labels"]))) for line in lines}
    assert len(found) == len(lines), "a metric is listed twice"
    return found


async def shown(call: Caller) -> Metrics:
    """What the answer tells; of every metric that has labels there must be a sample."""
    found = {}
    for family in (await scrape(call.http)).families.values():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert family.samples, f"nothing of {name} has happened yet"
        labels = frozenset(label for sample in family.samples for label in sample.labels) - {"le"}
        found[name] = (family.type, labels)
    return found


async def test_the_page_and_the_answer_are_equal(call: Caller, parts: Components) -> None:
    await everything_happens(call, parts)
    page, answer = listed(), await shown(call)
    if sys.platform != "linux":
        page = {name: metric for name, metric in page.items() if not name.startswith("process_")}
    assert page == answer


async def everything_happens(call: Caller, parts: Components) -> None:
    """Let something of every metric with labels happen."""
    for _ in range(2):
        await call.batch(init(1), init(2, 9), ack(2, 9), init(3, spout_task="others"), key="k")
    read = await call.completions(limit=1)
    await call.release(read["cursor"])
    await call.http.delete("/v1/topologies/default/spouts/others?discard=true")
    await call.states(init(4, 9, message_timeout_ms=100))
    await eventually(lambda: a_root_timed_out(call, parts))
    await call.put_spout("hooked", callback={"kind": "webhook", "url": "https://orders.example"})
    metrics = parts.metrics.delivery
    metrics.posts["default", "done"].inc()
    metrics.messages["default"].inc()
    metrics.post_seconds["default"].observe(0.1)
    parts.metrics.http.rate_limited["app"].inc()
    await parts.expiry._scan_bucket(await parts.registry.get("default"), 0, 1, _Run(due=deque(), ticked_at={}))


async def a_root_timed_out(call: Caller, parts: Components) -> bool:
    await root_expiry(parts, interval=1)._run_measured("default")
    return bool((await call.show())["counts"]["timed_out"])
