"""Knows what can go wrong in the client.

The tree of errors (code, whether trying again helps)::

    AckerError
    ├── Misuse             misuse no: the program asks for what cannot be
    │   ├── TupleDone      tuple_done no: acked or failed twice, or used afterwards
    │   ├── NameTaken      name_taken no: a name used twice under one parent
    │   ├── TooManyAnchors too_many_anchors no: a message would carry more anchors than its header holds
    │   └── Closed         closed no: the acker was closed before
    ├── WrongHeader        wrong_header no: an anchors header that cannot be read, or of another topology
    ├── WrongAnswer        wrong_answer no: what answers does not speak the contract
    ├── Unreachable        unreachable no: retried for as long as is safe, and what became of it is not known
    ├── Undelivered        undelivered no: acks that lingered could not be delivered, told to the next caller
    ├── BufferFull         buffer_full yes: too much is on its way, and the program does not want to wait
    ├── Refused            refused yes: operations of a batch that were not accepted, told one by one
    └── ServiceError       what the service answers, with subclasses: see ``acker_protocol.errors``
"""

from typing import TYPE_CHECKING, Any

from acker_protocol.errors import AckerError as AckerError  # noqa: PLC0414 - the root of this tree, offered here

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from acker_client.calls import Answer


class Misuse(AckerError):
    """The program asks for what cannot be; what is refused so is not sent."""

    code = "misuse"


class TupleDone(Misuse):
    """A tuple or root is used after it was acked, failed or emitted."""

    code = "tuple_done"


class NameTaken(Misuse):
    """A child's name is used twice under one parent: both would get the same edge id."""

    code = "name_taken"


class TooManyAnchors(Misuse):
    """A message would carry more anchors than its header holds."""

    code = "too_many_anchors"


class Closed(Misuse):
    """The acker is used after it was closed, or was closed meanwhile; what was on its way then may have arrived."""

    code = "closed"


class WrongHeader(AckerError):
    """An anchors header cannot be read, or is of another topology."""

    code = "wrong_header"


class WrongAnswer(AckerError):
    """What answers at this address does not speak the contract."""

    code = "wrong_answer"


class Unreachable(AckerError):
    """A request was sent again for as long as that is safe, and what became of it is not known.

    ``__cause__`` is the last thing that went wrong. Sending the same ack once more, in a new request, could apply it
    twice: leave it, and the root will be replayed.
    """

    code = "unreachable"


class Undelivered(AckerError):
    """Operations that had lingered were given up; ``operations`` is their number, ``__cause__`` the last reason.

    The call that raises it has done nothing else, so make it again. What was given up is not to be sent once more: the
    roots time out and are replayed.
    """

    code = "undelivered"

    def __init__(self, operations: int) -> None:
        super().__init__(f"{operations} operations that had been taken in could not be delivered")
        self.operations = operations


class BufferFull(AckerError):
    """Too much is on its way already, and ``when_full`` is ``raise``; the tuple is as it was."""

    code, retryable = "buffer_full", True


class Refused(AckerError):
    """Some operations of a batch were not accepted; ``answers`` holds those, and the others were applied."""

    code, retryable = "refused", True

    def __init__(self, answers: "Sequence[Answer]") -> None:
        words = ", ".join(sorted({answer.word for answer in answers}))
        super().__init__(f"{len(answers)} operations of the batch were not accepted: {words}")
        self.answers = tuple(answers)


def checked(what: str, check: "Callable[[Any], Any]", value: Any) -> Any:
    """Give a programmer's value as the contract's check gives it; None stays None. Raises `Misuse` that names it."""
    if value is None:
        return None
    try:
        return check(value)
    except ValueError as fault:
        raise Misuse(f"{what} {fault}") from None
