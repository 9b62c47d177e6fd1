"""A worker asks a real acker whether a tuple is wanted: while the outcome is remembered, and afterwards."""

from collections.abc import Iterator

import pytest
from acker_client import Acker
from acker_client.tuple import Tuple

from tests.support.servers import AckerProcess, acker_serve
from tests.support.waiting import eventually_true


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory, valkey_url: str) -> Iterator[AckerProcess]:
    with acker_serve(tmp_path_factory.mktemp("ended"), "--redis-url", valkey_url) as acker:
        yield acker


def ended(acker: Acker) -> Tuple:
    """A tuple of a root that has failed."""
    with acker.spout("orders").emit(message_id="42") as root:
        failing, left = root.headers("0"), root.headers("1")
    acker.receive(failing, component="save").fail("no such product")
    return acker.receive(left, component="save")


def test_what_is_left_of_a_tree_is_skipped_while_its_outcome_is_remembered_and_not_afterwards(
    serving: AckerProcess,
) -> None:
    with Acker(serving.url, topology="short") as acker:
        acker.topologies.create("short", message_timeout=1, retention=1)
        tup = ended(acker)
        assert not tup.is_wanted()
        eventually_true(tup.is_wanted)
    with Acker(serving.url, topology="long") as acker:
        acker.topologies.create("long", message_timeout=1, retention=3_600)
        tup = ended(acker)
        late = ended(acker)
        eventually_true(lambda: acker.topologies.get("long").pending == 0)
        assert tup.skip_if_ended()
        assert late.skip_if_ended()
        assert acker.stats().skipped == 2
