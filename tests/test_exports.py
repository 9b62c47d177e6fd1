"""Tests what the packages for users offer."""

import re
from importlib import import_module

import acker_client
import pytest
from acker_client import errors

CLIENT = """
    Acker AsyncAcker Spout AsyncSpout Replay AsyncReplay ReplayPolicy GivenUp
    Root Tuple Anchor Anchors Batch Answer Done Outcome OperationState Counts Reject Retry topology_of
    AckerError Misuse TupleDone NameTaken TooManyAnchors Closed WrongHeader WrongAnswer Unreachable Refused
    Undelivered BufferFull
    ServiceError InvalidRequest Conflict MaxSpoutPending TooManySpouts MailboxFull StoreFull
    webhook_app
"""

ROOMS = {
    "acker_client.asgi": "AckerMiddleware OPEN TUPLE",
    "acker_client.hooks": "NAME add_anchors async_add_anchors carry",
    "acker_client.offsets": "OffsetTracker",
    "acker_spark": """
        SparkAcker SparkAckerOptions BatchCollector BatchReport functions ANCHORS_COLUMN EDGE_COLUMN ROOT_COLUMN
        AckerError UsageError InvalidOptions QueryIdRequired NullMessageId MissingAnchors DuplicateKey BatchClosed
        IncompatibleTopology PendingLimit ConcurrentQuery NondeterministicBatch DataLoss
    """,
    "acker_spark.functions": "branch collect_anchors explode fail filter is_active join",
    "acker_client.sources.rabbitmq": "Delivery RabbitSource",
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


def test_every_error_of_the_connector_is_offered_drawn_and_has_a_code_of_its_name():
    connector = import_module("acker_spark")
    own = import_module("acker_spark.errors")
    tree = [
        value
        for value in vars(own).values()
        if isinstance(value, type) and issubclass(value, Exception) and value.__module__ == own.__name__
    ]
    assert own.__doc__ is not None
    for error in tree:
        assert issubclass(error, errors.AckerError)
        assert error.__name__ in connector.__all__
        assert error.__name__ in own.__doc__
        assert error.code == re.sub(r"(?<!^)(?=[A-Z])", "_", error.__name__).lower()
