"""Tests what the packages for users offer."""

from importlib import import_module

import acker_client
import pytest
from acker_client import errors

CLIENT = """
    Acker AsyncAcker Spout AsyncSpout Replay AsyncReplay ReplayPolicy Exhausted
    Root Tuple Anchor Anchors Batch Answer Completion Outcome OperationState Counts DropTuple Retry topology_of
    AckerError UsageError TupleClosed DuplicateKey TooManyAnchors Closed InvalidHeader InvalidResponse RetriesExhausted Refused
    OperationsLost BufferFull
    ServiceError InvalidRequest Conflict MaxSpoutPending TooManySpouts MailboxFull StoreFull
    webhook_app
"""

ROOMS = {
    "acker_client.integrations.asgi": "AckerMiddleware OPEN TUPLE",
    "acker_client.integrations.httpx": "NAME inject_request ainject_request use",
    "acker_client.sources.offsets": "OffsetTracker",
    "acker_spark": """
        Acker Ledger Shipped split_rows filter_rows fail_rows fork join_anchors gathered live
        AckerSparkError UsageError WrongOptions NoQueryId NullMessageId NotOfThisBatch EqualKeys LedgerClosed
        UnfitTopology NoRoom AnotherQuery RowsChanged
    """,
    "acker_client.sources.rabbitmq": "Delivery RabbitSpout",
}
"""What is imported from a room of its own."""


def test_the_client_offers_these_names_and_no_others():
    assert set(acker_client.__all__) == set(CLIENT.split())


def test_every_name_the_client_offers_is_there():
    assert all(hasattr(acker_client, name) for name in acker_client.__all__)


@pytest.mark.parametrize(("room", "names"), ROOMS.items())
def test_a_room_of_the_client_offers_these_names_and_no_others(room: str, names: str):
    offered = import_module(room)
    assert set(offered.__all__) == set(names.split())
    assert all(hasattr(offered, name) for name in offered.__all__)


def test_a_star_import_brings_what_is_offered():
    found: dict[str, object] = {}
    exec("from acker_client import *", found)
    assert found.keys() - {"__builtins__"} == set(acker_client.__all__)


def test_every_error_of_the_client_is_offered_and_drawn():
    tree = [name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)]
    assert set(tree) <= set(acker_client.__all__)
    assert errors.__doc__ is not None
    assert all(name in errors.__doc__ for name in tree)
