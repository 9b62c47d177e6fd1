"""A page of completions reads from the store about as much as it gives, over however many shards it goes."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

import pytest
from acker_protocol import routes
from acker_protocol.operations import Init
from acker_protocol.wire.packed import CONTENT_TYPE, encode_packed

from bench.servers import Member
from tests.support.servers import AckerProcess, acker_serve
from tests.support.stores import running

TOPOLOGY, SPOUT = "wide", "orders"
SHARDS = 32
SIZE = 1_024
"""How long a message id is; a completion is little longer."""

MEGABYTE = 1_000_000
MAX_PAGE_BYTES = 4_194_304
MARGIN = 1.5
"""What a reply holds besides completions, and what is sent for other reasons meanwhile."""


@dataclass(frozen=True)
class Stage:
    acker: AckerProcess
    valkey: Member

    def end(self, roots: Iterator[Init]) -> None:
        """End roots, as many in a batch as it may hold."""
        while batch := list(islice(roots, 3_500)):
            answer = self.acker.http.post(
                routes.operation(TOPOLOGY, "batch"),
                content=encode_packed(batch),
                headers={"Content-Type": CONTENT_TYPE},
                params={"results": "exceptions"},
            )
            assert (answer.status_code, answer.json()["exceptions"]) == (200, []), answer.text

    def page(self, **query: object) -> tuple[list[int], str]:
        """Read a page, and return its roots and its cursor."""
        answer = self.acker.http.get(routes.completions(TOPOLOGY, SPOUT), params=query)
        assert answer.status_code == 200, answer.text
        read = answer.json()
        return [int(done["root_id"], 16) for done in read["completions"]], read["cursor"]

    def cost(self, **query: object) -> tuple[int, int]:
        """Read a page, and return how many completions it has, and how many bytes the store sent for it."""
        before = self.sent()
        roots, _ = self.page(**query)
        return len(roots), self.sent() - before

    def sent(self) -> int:
        return int(dict(self.valkey.ask("INFO", "stats"))["total_net_output_bytes"])


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """32 ackers, each with 250 completions of a kilobyte in two entries of its mailbox: 8 MB in all."""
    folder: Path = tmp_path_factory.mktemp("pages")
    with running("valkey", folder) as store, acker_serve(folder / "acker", "--redis-url", store.url) as acker:
        assert acker.http.put(routes.topology(TOPOLOGY), json={"ackers": SHARDS}).is_success
        stage = Stage(acker, store.members[0])
        stage.end(ended(range(1, 250 * SHARDS + 1)))
        yield stage


def ended(roots: range) -> Iterator[Init]:
    """Inits that end at once."""
    return (Init(root_id=root, spout_task=SPOUT, ack_val=0, message_id=f"{root:0{SIZE}}") for root in roots)


@pytest.mark.parametrize("limit", [1, 2, 10])
def test_a_small_page_reads_no_more_than_so_many_completions_a_shard(stage: Stage, limit: int) -> None:
    given, sent = stage.cost(limit=limit)
    assert given == limit
    assert sent < limit * SHARDS * SIZE * MARGIN + 100_000


def test_a_large_page_reads_no_more_than_a_page_may_hold_from_all_shards_together(stage: Stage) -> None:
    given, sent = stage.cost(limit=10_000)
    assert given > 1_000
    assert sent < MAX_PAGE_BYTES * MARGIN


@pytest.mark.parametrize("limit", [7, 100, 1_000, 10_000])
def test_reading_on_gives_every_completion_once(stage: Stage, limit: int) -> None:
    found, query = list[int](), dict[str, object]()
    for number in count():
        roots, cursor = stage.page(limit=limit, **query)
        if not roots or (limit < 100 and number == 50):
            break
        found, query = [*found, *roots], {"after": cursor}
    assert len(found) == len(set(found))
    assert len(found) == (350 if limit < 100 else 250 * SHARDS)


def test_reading_on_in_small_pages_does_not_read_everything_each_time(stage: Stage) -> None:
    before, query, given = stage.sent(), dict[str, object](), 0
    for _ in range(10):
        roots, cursor = stage.page(limit=100, **query)
        given, query = given + len(roots), {"after": cursor}
    assert given == 1_000
    assert stage.sent() - before < 10 * 100 * SIZE * 12


@pytest.mark.parametrize("accept", ["text/event-stream", "application/json"])
def test_the_mailbox_of_one_full_shard_is_read_whole_pages_at_a_time(stage: Stage, accept: str) -> None:
    """Where the others are empty, one shard gives all of the page."""
    name = f"alone-{accept.partition('/')[2]}"
    roots = (
        Init(root_id=root, spout_task=name, ack_val=0, message_id="short")
        for root in range(SHARDS * 10_000 * (1 + len(name)), SHARDS * (10_000 * (1 + len(name)) + 500), SHARDS)
    )
    stage.end(roots)
    if accept == "application/json":
        answer = stage.acker.http.get(routes.completions(TOPOLOGY, name), params={"limit": 400})
        assert len(answer.json()["completions"]) == 400
        return
    with stage.acker.http.stream("GET", routes.completions(TOPOLOGY, name), headers={"Accept": accept}) as stream:
        events = (line for line in stream.iter_lines() if line.startswith("data:"))
        assert len(list(islice(events, 500))) == 500
