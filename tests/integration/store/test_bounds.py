"""What the stores that one key can fill take at most: the numbers in the table of docs/access.md hold."""

import re
from collections.abc import AsyncIterator, Sequence

import pytest
from acker_protocol import routes
from acker_protocol.ids import format_id
from acker_service.components import Components
from acker_service.monitoring.audit import Act, Entry
from acker_service.redis import keys, library
from acker_service.redis.functions.history import Claim, Totals, note_samples
from acker_service.topologies.topology import Topology

from tests.support.caller import Caller, Document, ack, fail, init
from tests.support.pages import DOCS
from tests.support.redis_side import at, everywhere, find, on_server_of

pytestmark = pytest.mark.anyio

SHARDS = 128
"""As many as a topology may have: each has an equal part of a bound, and a small part is filled soon."""

LIMIT = 200_000_000
"""What Redis may use where a bound depends on it."""
MAILBOXES = "completions in mailboxes, for 10,000 completions"

E, F = 0xE1, 0xE2
LONGEST_REASON = "\N{GOTHIC LETTER AHSA}" * 1_024  # of four bytes each
LONGEST_ID = "m" * 1_024
LONGEST_NAME = "c" * 128
LONGEST_TRACEPARENT = f"00-{1:032x}-{2:016x}-01"


def bound(store: str) -> int:
    """Return the bytes that the table grants a store of a topology."""
    page = (DOCS / "access.md").read_text(encoding="utf-8")
    [row] = re.findall(rf"^\| {re.escape(store)} \|.*?\| ([\d,]+) MB\b", page, re.MULTILINE)
    return int(row.replace(",", "")) * 1_000_000


async def taken(parts: Components, pattern: str) -> int:
    """Return the bytes that the keys take whose names match."""
    names = [key.encode(errors="surrogateescape") for key in await find(parts, pattern)]
    sizes = [
        await on_server_of(parts, name.decode(errors="replace"), "MEMORY", "USAGE", name, "SAMPLES", 0)
        for name in names
    ]
    return sum(sizes)


@pytest.fixture
async def wide(call: Caller) -> Caller:
    """A topology of as many shards as there may be."""
    caller = Caller(call.http, "wide")
    await caller.put(ackers=SHARDS)
    return caller


def in_first_shard(count: int) -> Sequence[int]:
    return range(SHARDS, SHARDS * (count + 1), SHARDS)


def longest(root: int) -> list[Document]:
    """Begin a root and fail it, with texts that are all as long as they may be."""
    return [
        init(root, E, message_id=LONGEST_ID, traceparent=LONGEST_TRACEPARENT),
        fail(root, reason=LONGEST_REASON, component=LONGEST_NAME),
    ]


async def test_the_list_of_failures_is_bounded(wide: Caller, parts: Components) -> None:
    for root in in_first_shard(300):
        assert await wide.states(*longest(root)) == ["pending", "failed"]
    assert await taken(parts, "acker:{wide/0}:*:failures?") * SHARDS <= bound("list of failures")


@pytest.fixture
async def limited(parts: Components) -> AsyncIterator[None]:
    """Let Redis use no more than `LIMIT`; a library that was just loaded has not read another limit before."""
    await everywhere(parts, "CONFIG SET", "maxmemory", LIMIT)
    await everywhere(parts, "FUNCTION LOAD", "REPLACE", library.source())
    yield
    await everywhere(parts, "CONFIG SET", "maxmemory", 0)
    await everywhere(parts, "FUNCTION LOAD", "REPLACE", library.source())


async def listed(call: Caller) -> list[int]:
    """Return the roots in the list of failures, page by page."""
    found, after = list[int](), dict[str, str]()
    while True:
        page = (await call.http.get(f"{routes.topology(call.topology)}/failures", params={"limit": 100} | after)).json()
        found += [int(failure["root_id"], 16) for failure in page["failures"]]
        if page["cursor"] is None:
            return found
        after = {"after": page["cursor"]}


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("at_once", [1, 40, 400])
async def test_the_list_of_failures_takes_a_fiftieth_of_maxmemory_at_most(
    call: Caller, parts: Components, at_once: int
) -> None:
    """It has the newest failures, each once, and finds those and no others."""
    single, last = Caller(call.http, "single"), 1_200
    await single.put(ackers=1)
    for first in range(1, last + 1, at_once):
        await single.states(*(op for root in range(first, first + at_once) for op in longest(root)))
    assert LIMIT / 200 < await taken(parts, "acker:{single/0}:*:failures?") <= LIMIT / 50
    found = await listed(single)
    assert found == list(range(last, last - len(found), -1))
    assert 250 < len(found) < 500
    assert (await single.root(min(found)))["component"] == LONGEST_NAME
    assert (await single.root(1))["component"] is None


async def test_completions_in_mailboxes_are_bounded_by_their_number(call: Caller, parts: Components) -> None:
    single, number = Caller(call.http, "single"), 200
    await single.put(ackers=1)
    for root in range(1, number + 1):
        assert await single.states(*longest(root)) == ["pending", "failed"]
    assert 5_000 * number < await taken(parts, "acker:{single/0}:*:m*") <= number * bound(MAILBOXES) / 10_000


async def test_names_and_counts_of_components_are_bounded(wide: Caller, parts: Components) -> None:
    root, *others = in_first_shard(301)
    await wide.post(init(root, E))
    for n, other in enumerate(others):
        name = f"{n:0>128}"
        assert await wide.states(ack(root, 2 * n + 2, component=name)) == ["pending"]
        await wide.states(init(other, E), fail(other, component=name))
    found = await taken(parts, "acker:{wide/0}:*:names") + await taken(parts, "acker:{wide/0}:*:failed")
    assert found * SHARDS <= bound("names and counts of components")


async def test_the_history_is_bounded(parts: Components) -> None:
    topology = await parts.registry.get("default")
    for n in range(1, 150):
        await _note(parts, topology, step=n * 144, count=2**53 + n)
    levels = [keys.history("default", topology.incarnation, level) for level in (1, 2, 3)]
    assert [await at(parts, "ZCARD", level) for level in levels] == [121] * 3
    pattern = f"{keys.topology('default')}:*:history?"
    assert await taken(parts, pattern) <= bound("history")


async def _note(parts: Components, topology: Topology, *, step: int, count: int) -> None:
    latencies = dict.fromkeys(range(24), count)
    totals = Totals(failed=count, timed_out=count, pending=count, unread=count, latencies=latencies)
    claim = Claim(now_ms=step * 5_000, step=step, since=1)
    await parts.redis.execute(note_samples(claim, [(topology.name, topology.incarnation, totals)]))


async def test_the_audit_trail_is_bounded(parts: Components) -> None:
    """Of all topologies together."""
    most = 1_125
    for n in range(most):
        await parts.audit.note(
            Entry(
                act=Act.COMPLETIONS_DISCARDED,
                topology=f"{n:0>128}",
                spout_task=LONGEST_NAME,
                root_id=format_id(n),
                count=2**53,
                key=LONGEST_NAME,
                request_id=LONGEST_NAME,
            )
        )
    assert await at(parts, "ZCARD", keys.ACTS) == most
    assert await taken(parts, keys.ACTS) <= bound("audit trail, of all topologies together")


async def test_first_failures_of_roots_that_wait_are_bounded_by_the_cap_of_pending_roots(
    call: Caller, parts: Components
) -> None:
    """Only the first one of a root is kept, however many of its edges fail."""
    capped, pending = Caller(call.http, "capped"), 200
    await capped.put(ackers=1, max_spout_pending=pending, end_on="all_ended")
    await capped.states(*(init(root, E, F) for root in range(1, 301)))
    texts = {"reason": LONGEST_REASON, "component": LONGEST_NAME}
    for edge in (E, F):
        ends = {"edge_id": format_id(edge), "children": [format_id(edge + 2)]}
        failed = [fail(root, **ends, **texts) for root in range(1, pending + 1)]
        assert await capped.states(*failed) == ["pending"] * pending
    waiting = "[wait for all of their edges](semantics.md#done-with-failures)"
    per_root = bound(f"first failures, for 10,000 pending roots that {waiting}") / 10_000
    assert 4_000 * pending < await taken(parts, "acker:{capped/0}:*:x*") <= pending * per_root


async def test_message_ids_are_bounded_by_the_cap_of_pending_roots(call: Caller, parts: Components) -> None:
    """A root takes so many bytes for the longest one; a cap bounds how many roots of a spout task are pending."""
    capped, pending = Caller(call.http, "capped"), 200
    await capped.put(ackers=1, max_spout_pending=pending)
    states = await capped.states(*(init(root, E, message_id=LONGEST_ID) for root in range(1, 301)))
    assert states == ["pending"] * pending + ["max_spout_pending"] * (300 - pending)
    per_root = bound("message ids, for 10,000 roots that may be pending") / 10_000
    assert await taken(parts, "acker:{capped/0}:*:x*") <= pending * per_root
