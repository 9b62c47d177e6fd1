"""Reports to an acker what a program emits and processes, and learns when a message is fully processed."""

from importlib import import_module
from typing import TYPE_CHECKING

from acker_protocol.anchors import Anchor, Anchors, topology_of
from acker_protocol.operations import EndOn, OperationState, Outcome

from acker_client._client_base import Stats
from acker_client._core.batch import Batch
from acker_client._core.collection import Collection
from acker_client._core.replay import Exhausted, ReplayMessage, ReplayPolicy
from acker_client._core.requests import OperationResult
from acker_client.completions import Completion, DeadLetter
from acker_client.errors import (
    AckerError,
    AckersFixed,
    BatchError,
    BufferFull,
    ClientClosed,
    Conflict,
    DropTuple,
    DuplicateKey,
    FailTuple,
    Forbidden,
    ForbiddenOrigin,
    InvalidHeader,
    InvalidRequest,
    InvalidResponse,
    InvalidSignature,
    MailboxFull,
    MailboxOwned,
    MaxSpoutPending,
    MethodNotAllowed,
    NotFound,
    OperationsLost,
    Overloaded,
    RetriesExhausted,
    ServiceError,
    SpoutBusy,
    StoreFull,
    StoreUnavailable,
    TooLarge,
    TooManyAnchors,
    TooManySpouts,
    TooManyStreams,
    TopologyBusy,
    TupleClosed,
    TupleSignal,
    Unauthorized,
    UnknownRoot,
    UnknownSpout,
    UnknownTopology,
    UnsupportedMediaType,
    UsageError,
)
from acker_client.root import Root
from acker_client.sync.spout import Replay, Spout
from acker_client.tuple import AsyncTuple, Tuple

if TYPE_CHECKING:
    from acker_client.asyncio.client import AsyncAcker
    from acker_client.asyncio.spout import AsyncReplay, AsyncSpout
    from acker_client.failures import Failure
    from acker_client.roots import RootInfo
    from acker_client.spout_tasks import Callback, SpoutTaskInfo, WebhookTest
    from acker_client.sync.client import Acker
    from acker_client.topologies import Topology
    from acker_client.webhook import webhook_app

    __version__: str

__all__ = [
    "Acker",
    "AckerError",
    "AckersFixed",
    "Anchor",
    "Anchors",
    "AsyncAcker",
    "AsyncReplay",
    "AsyncSpout",
    "AsyncTuple",
    "Batch",
    "BatchError",
    "BufferFull",
    "Callback",
    "ClientClosed",
    "Collection",
    "Completion",
    "Conflict",
    "DeadLetter",
    "DropTuple",
    "DuplicateKey",
    "EndOn",
    "Exhausted",
    "FailTuple",
    "Failure",
    "Forbidden",
    "ForbiddenOrigin",
    "InvalidHeader",
    "InvalidRequest",
    "InvalidResponse",
    "InvalidSignature",
    "MailboxFull",
    "MailboxOwned",
    "MaxSpoutPending",
    "MethodNotAllowed",
    "NotFound",
    "OperationResult",
    "OperationState",
    "OperationsLost",
    "Outcome",
    "Overloaded",
    "Replay",
    "ReplayMessage",
    "ReplayPolicy",
    "RetriesExhausted",
    "Root",
    "RootInfo",
    "ServiceError",
    "Spout",
    "SpoutBusy",
    "SpoutTaskInfo",
    "Stats",
    "StoreFull",
    "StoreUnavailable",
    "TooLarge",
    "TooManyAnchors",
    "TooManySpouts",
    "TooManyStreams",
    "Topology",
    "TopologyBusy",
    "Tuple",
    "TupleClosed",
    "TupleSignal",
    "Unauthorized",
    "UnknownRoot",
    "UnknownSpout",
    "UnknownTopology",
    "UnsupportedMediaType",
    "UsageError",
    "WebhookTest",
    "__version__",
    "topology_of",
    "webhook_app",
]

_LAZY = {
    "Acker": "sync.client",
    "AsyncAcker": "asyncio.client",
    "AsyncReplay": "asyncio.spout",
    "AsyncSpout": "asyncio.spout",
    "Callback": "spout_tasks",
    "Failure": "failures",
    "RootInfo": "roots",
    "SpoutTaskInfo": "spout_tasks",
    "Topology": "topologies",
    "WebhookTest": "spout_tasks",
    "webhook_app": "webhook",
}
"""Imported at the first access: httpx and asyncio take most of the time, and the command ``acker`` needs neither."""


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version("acker-client")
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
