"""Tells an acker what was emitted and what is done."""

from importlib import import_module
from typing import TYPE_CHECKING

from acker_protocol.errors import (
    Conflict,
    InvalidRequest,
    MailboxFull,
    MaxSpoutPending,
    ServiceError,
    StoreFull,
    TooManySpouts,
)
from acker_protocol.operations import OperationState, Outcome

from acker_client.anchoring import Anchor, Anchors, topology_of
from acker_client.batching import Batch
from acker_client.calls import Answer
from acker_client.completions import Done
from acker_client.counts import Counts
from acker_client.errors import (
    AckerError,
    BufferFull,
    Closed,
    Misuse,
    NameTaken,
    Refused,
    TooManyAnchors,
    TupleDone,
    Undelivered,
    Unreachable,
    WrongAnswer,
    WrongHeader,
)
from acker_client.replaying import GivenUp, ReplayPolicy
from acker_client.roots import Root
from acker_client.sync import Acker
from acker_client.thread_spouts import Replay, Spout
from acker_client.tuples import Tuple
from acker_client.verdicts import Reject, Retry

if TYPE_CHECKING:
    from acker_client.aio import AsyncAcker
    from acker_client.loop_spouts import AsyncReplay, AsyncSpout
    from acker_client.webhook import webhook_app

__all__ = [
    "Acker",
    "AckerError",
    "Anchor",
    "Anchors",
    "Answer",
    "AsyncAcker",
    "AsyncReplay",
    "AsyncSpout",
    "Batch",
    "BufferFull",
    "Closed",
    "Conflict",
    "Counts",
    "Done",
    "GivenUp",
    "InvalidRequest",
    "MailboxFull",
    "MaxSpoutPending",
    "Misuse",
    "NameTaken",
    "OperationState",
    "Outcome",
    "Refused",
    "Reject",
    "Replay",
    "ReplayPolicy",
    "Retry",
    "Root",
    "ServiceError",
    "Spout",
    "StoreFull",
    "TooManyAnchors",
    "TooManySpouts",
    "Tuple",
    "TupleDone",
    "Undelivered",
    "Unreachable",
    "WrongAnswer",
    "WrongHeader",
    "topology_of",
    "webhook_app",
]

_LATER = {"AsyncAcker": "aio", "AsyncReplay": "loop_spouts", "AsyncSpout": "loop_spouts", "webhook_app": "webhook"}
"""Imported when first asked for: asyncio is a third of what there is to import."""


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
