"""The audit of tests/cluster sees what it is there for: a lost root, an early word, a word told twice, a lost ack."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from acker_protocol.ids import format_id

from tests.cluster.audit import Findings, audit
from tests.cluster.load import HELD_TIMEOUT_MS, Client, Load, Root
from tests.cluster.network import Host
from tests.cluster.replicas import Replica

HELD, ACKED = 1, 2
SENT_MS, ACKED_MS = 1_000, 2_000
FINE = [(HELD, "timed_out", SENT_MS + HELD_TIMEOUT_MS), (ACKED, "acked", ACKED_MS)]
GOOD = Findings(answered=2, lost=0, acks_lost=0, early=0, twice=0, refused=0)

Told = list[tuple[int, str, int]]


class Telling(Replica):
    """A replica whose mailbox holds these completions, a page each, and which has nothing pending."""

    def __init__(self, told: Told) -> None:
        super().__init__(host=object.__new__(Host), folder=Path(), options=())
        self.told = told

    @contextlib.contextmanager
    def http(self) -> Iterator[httpx.Client]:
        with httpx.Client(transport=httpx.MockTransport(self._answer), base_url="http://acker") as client:
            yield client

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/completions"):
            return httpx.Response(200, json={"pending": 0})
        at = int(request.url.params.get("after", "0"))
        page = [{"root_id": format_id(root), "outcome": how, "at_ms": ms} for root, how, ms in self.told[at : at + 1]]
        return httpx.Response(200, json={"completions": page, "cursor": str(at + len(page))})


def audited(told: Told) -> Findings:
    host = object.__new__(Host)
    host.name = "s1"
    roots = {
        HELD: Root(held=True, sent_ms=SENT_MS, is_answered=True),
        ACKED: Root(held=False, sent_ms=SENT_MS, is_answered=True, acked_ms=ACKED_MS, acks_answered=True),
    }
    client = Client(host=host, url="", topology="t", shards=1, roots=roots)
    return audit(Load(clients=[client]), Telling(told))


def found(findings: Findings) -> dict[str, int]:
    """Return what is not as it should be."""
    names = ("lost", "acks_lost", "early", "twice")
    return {name: number for name in names if (number := getattr(findings, name))}


def test_where_all_is_well_it_finds_nothing() -> None:
    assert audited(FINE) == GOOD


@pytest.mark.parametrize(
    ("told", "finds"),
    [
        (FINE[:1], {"lost": 1}),
        ([], {"lost": 2}),
        ([*FINE, FINE[1]], {"twice": 1}),
        ([(HELD, "acked", 9_999), FINE[1]], {"early": 1}),
        ([(HELD, "timed_out", SENT_MS + HELD_TIMEOUT_MS - 100), FINE[1]], {"early": 1}),
        ([FINE[0], (ACKED, "acked", ACKED_MS - 100)], {"early": 1}),
        ([FINE[0], (ACKED, "timed_out", 99_999)], {"acks_lost": 1}),
        ([*FINE, (HELD, "acked", 9_999)], {"early": 1, "twice": 1}),
    ],
)
def test_each_broken_promise_is_found(told: Told, finds: dict[str, int]) -> None:
    assert found(audited(told)) == finds
