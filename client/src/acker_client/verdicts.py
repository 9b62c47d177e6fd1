"""Knows the two verdicts that an execute block may give by raising them."""

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acker_client.tuples import Tuple


class Verdict(Exception):
    """What a block says of its tuple by raising it; the block ends there, and the exception goes no further."""


class Retry(Verdict):
    """Fail the tree at once, so that its spout sends the message again; also where exceptions wait for redelivery."""


class Reject(Verdict):
    """Not worth a retry: ``on_reject`` is told, it is counted, and the tuple is acked."""


def warn(tuple_: "Tuple", reject: Reject) -> None:
    """Log a rejected tuple: what ``on_reject`` does unless told otherwise."""
    logging.getLogger("acker_client").warning("%s was rejected: %s", tuple_, reject)
