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
    Root Tuple AsyncTuple Anchor Anchors Batch Collection OperationResult Completion Outcome OperationState EndOn Stats
    Topology RootInfo SpoutTaskInfo Callback WebhookTest DeadLetter Failure
    DropTuple FailTuple TupleSignal topology_of
    AckerError UsageError TupleClosed DuplicateKey TooManyAnchors ClientClosed InvalidHeader InvalidSignature
    InvalidResponse RetriesExhausted BatchError OperationsLost BufferFull
    ServiceError InvalidRequest Unauthorized Forbidden ForbiddenOrigin NotFound UnknownTopology UnknownRoot UnknownSpout
    MethodNotAllowed Conflict TopologyBusy SpoutBusy AckersFixed MailboxOwned TooLarge UnsupportedMediaType
    TooManySpouts MaxSpoutPending MailboxFull TooManyStreams StoreFull Overloaded StoreUnavailable
    webhook_app __version__
"""

MODULES = {
    "acker_client.integrations.asgi": "AckerMiddleware RETRY_STATUSES SCOPE_KEY",
    "acker_client.integrations.asgi_spout": "ROOT_KEY SpoutMiddleware",
    "acker_client.integrations.celery": "track",
    "acker_client.integrations.dramatiq": "AckerMiddleware NotTracked",
    "acker_client.integrations.faststream": "AckerMiddleware",
    "acker_client.integrations.httpx": "KEY ainject_request inject_request",
    "acker_client.integrations.opentelemetry": "RootSpans instrument",
    "acker_client.integrations.prometheus": "StatsCollector",
    "acker_client.integrations.process": """
        ANCHORS_VARIABLE CHILDREN_VARIABLE ChildrenFile child_environment received_headers
    """,
    "acker_client.integrations.taskiq": "AckerMiddleware",
    "acker_client.propagate": "AnchorParent current extract inject sign use verify",
    "acker_client.sources.offsets": "OffsetTracker",
    "acker_spark": """
        SparkAcker SparkAckerOptions BatchCollector BatchReport functions ANCHORS_COLUMN EDGE_COLUMN ROOT_COLUMN
        AckerError UsageError InvalidOptions QueryIdRequired NullMessageId MissingAnchors DuplicateKey BatchClosed
        IncompatibleTopology PendingLimit ConcurrentQuery NondeterministicBatch QueryStopped DataLoss
    """,
    "acker_spark.functions": "branch collect_anchors explode fail filter is_active join",
    "acker_client.sources.kafka": "KafkaSpout Record SkipRecord",
    "acker_client.sources.nats": "Message NatsSpout SkipMessage",
    "acker_client.sources.rabbitmq": "Delivery RabbitSpout RejectMessage",
    "acker_client.sources.redis_streams": "Message RedisStreamSpout SkipMessage",
    "acker_client.sources.sqs": "Message SkipMessage SqsSpout headers_of message_attributes",
}
"""What is imported from a module of its own."""


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


@pytest.mark.parametrize(("module", "names"), MODULES.items())
def test_a_module_offers_these_names_and_no_others(module: str, names: str):
    offered = import_module(module)
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
