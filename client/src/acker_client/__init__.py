"""Tells an acker what was emitted and what is done."""

from acker_protocol.messages import Outcome, Word
from acker_protocol.problems import Conflict, Invalid, MailboxFull, MaxSpoutPending, Problem, StoreFull

from acker_client.aio import AsyncAcker, AsyncSpout
from acker_client.anchoring import Anchor, Anchors
from acker_client.batching import Batch
from acker_client.calls import Answer
from acker_client.completions import Done
from acker_client.errors import (
    AckerError,
    Misuse,
    NameTaken,
    Refused,
    TooManyAnchors,
    TupleDone,
    Unreachable,
    WrongAnswer,
    WrongHeader,
)
from acker_client.roots import Root
from acker_client.sync import Acker, Spout
from acker_client.tuples import Tuple

__all__ = [
    "Acker",
    "AckerError",
    "Anchor",
    "Anchors",
    "Answer",
    "AsyncAcker",
    "AsyncSpout",
    "Batch",
    "Conflict",
    "Done",
    "Invalid",
    "MailboxFull",
    "MaxSpoutPending",
    "Misuse",
    "NameTaken",
    "Outcome",
    "Problem",
    "Refused",
    "Root",
    "Spout",
    "StoreFull",
    "TooManyAnchors",
    "Tuple",
    "TupleDone",
    "Unreachable",
    "Word",
    "WrongAnswer",
    "WrongHeader",
]
