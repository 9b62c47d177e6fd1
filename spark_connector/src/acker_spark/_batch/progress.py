"""How far a batch has come, as the log says it of one that takes long."""

from enum import Enum

LOGGED_EVERY_S = 60


class Stage(Enum):
    """What is done for a batch."""

    READING = "Spark computes its rows, and their roots are read"
    EMITTING = "{done:,} of {total:,} roots are emitted, and its function is called when all are"
    RESETTING = "the message timeouts of its {total:,} roots are reset, and then its function is called"
    WORKING = ""
    """Its function works, and can say itself how far it is."""
    SHIPPING = "its function has ended, and {done:,} of {total:,} acks and fails are sent"


class Progress:
    """The stage of a batch: its own thread writes it, another one reads it."""

    def __init__(self) -> None:
        self._now = Stage.READING, 0, 0

    def begin(self, stage: Stage, total: int = 0) -> None:
        """Begin a stage, of ``total`` operations."""
        self._now = stage, 0, total

    def count(self, done: int) -> None:
        """Count operations that are done."""
        stage, before, total = self._now
        self._now = stage, before + done, total

    def describe(self) -> str:
        """Describe how far the batch has come; "" while its function works."""
        stage, done, total = self._now
        return stage.value.format(done=done, total=total)
