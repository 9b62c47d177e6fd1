"""Knows what can go wrong in a job that is attached to an acker.

The tree of errors::

    AckerSparkError
    ├── Misuse (ValueError)     the program asks for what cannot be; nothing was sent
    │   ├── WrongOptions        options that are wrong, all of them in one message
    │   ├── NoQueryId           Spark does not tell the query's id here (Spark Connect): it must be given
    │   ├── NullMessageId       a row without a message id
    │   ├── NotOfThisBatch      rows without anchors, or of a root that is not of this batch
    │   ├── EqualKeys           emitted rows of one root with the same key: their edges would cancel
    │   └── LedgerClosed        the ledger of a batch that is over
    ├── UnfitTopology           the topology does not dedupe, or forgets too soon
    ├── NoRoom                  the batch has more roots than its spout task may have pending, or the store is full
    ├── AnotherQuery            somebody else tracks roots of this batch
    └── RowsChanged             a part of the batch was computed anew, and came out otherwise
"""


class AckerSparkError(Exception):
    """Something that the connector refuses."""


class Misuse(AckerSparkError, ValueError):
    """The program asks for what cannot be; nothing was sent."""


class WrongOptions(Misuse):
    """Options are wrong; ``faults`` says of each in words what."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


class NoQueryId(Misuse):
    """Spark does not tell the query's id here, and none was given."""


class NullMessageId(Misuse):
    """A row has no message id."""


class NotOfThisBatch(Misuse):
    """Rows have no anchors, or those of a root that is not of this batch."""


class EqualKeys(Misuse):
    """Emitted rows of one root have the same key, so that their edges would cancel each other."""


class LedgerClosed(Misuse):
    """A ledger is used after its batch was over."""


class UnfitTopology(AckerSparkError):
    """The topology does not dedupe, or remembers roots for a shorter time than edges."""


class NoRoom(AckerSparkError):
    """The batch finds no place: it has more roots than its spout task may have pending, or the store is full."""


class AnotherQuery(AckerSparkError):
    """Roots of this batch were begun by somebody else and are not done."""


class RowsChanged(AckerSparkError):
    """A part of the batch was lost and computed anew, and came out otherwise: the query is started again."""
