"""Tests what the packages for users offer."""

import re
from importlib import import_module
from importlib.metadata import version

import acker_client
import pytest
from acker_client import errors
from acker_protocol.errors import known

CLIENT = """
    Acker AsyncAcker Spout AsyncSpout Replay AsyncReplay ReplayPolicy ReplayMessage Exhausted
    Root Tuple AsyncTuple Anchor Anchors Batch OperationResult Completion Outcome OperationState Stats Topology RootInfo
    DropTuple FailTuple TupleSignal topology_of
    AckerError UsageError TupleClosed DuplicateKey TooManyAnchors ClientClosed InvalidHeader InvalidResponse
    RetriesExhausted BatchError OperationsLost BufferFull
    ServiceError InvalidRequest Unauthorized Forbidden NotFound UnknownTopology UnknownRoot UnknownSpout
    MethodNotAllowed Conflict TopologyBusy SpoutBusy AckersFixed MailboxOwned TooLarge UnsupportedMediaType
    TooManySpouts MaxSpoutPending MailboxFull StoreFull Overloaded StoreUnavailable
    webhook_app __version__
"""

ROOMS = {
    "acker_client.integrations.asgi": "AckerMiddleware RETRY_STATUSES SCOPE_KEY",
    "acker_client.integrations.httpx": "KEY ainject_request inject_request",
    "acker_client.propagate": "AnchorParent current extract inject use",
    "acker_client.sources.offsets": "OffsetTracker",
    "acker_spark": """
        Acker Ledger Shipped split_rows filter_rows fail_rows fork join_anchors gathered live
        AckerSparkError Misuse WrongOptions NoQueryId NullMessageId NotOfThisBatch EqualKeys LedgerClosed
        UnfitTopology NoRoom AnotherQuery RowsChanged
    """,
    "acker_client.sources.rabbitmq": "Delivery RabbitSpout RejectMessage",
}
"""What is imported from a room of its own."""


def test_the_client_offers_these_names_and_no_others():
    assert set(acker_client.__all__) == set(CLIENT.split())


def test_the_version_is_that_of_the_distribution():
    assert acker_client.__version__ == version("acker-client")


def test_one_except_clause_catches_every_error_of_the_client_and_of_the_service():
    found = [getattr(acker_client, name) for name in errors.__all__ if "Tuple" not in name or name == "TupleClosed"]
    assert all(issubclass(error, acker_client.AckerError) for error in found)
    assert {error.__name__ for error in known().values()} - {"InvalidBatch"} <= set(errors.__all__)


def test_the_codes_of_the_clients_errors_follow_their_names():
    own = [getattr(errors, name) for name in errors.__all__ if getattr(errors, name).__module__ == errors.__name__]
    named = {error.__name__: error.code for error in own if issubclass(error, acker_client.AckerError)}
    assert named == {name: re.sub("(?<!^)(?=[A-Z])", "_", name).lower() for name in named}


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
