"""What no stream of NATS can take as a child."""

import re
from collections.abc import Mapping

from nats.errors import BadHeaderError, BadSubjectError, MaxPayloadError

from acker_client.errors import UsageError

HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
MAX_SUBJECT_BYTES = 3_900
"""A server closes the connection at a line of more than 4,096 bytes: the subject, where to answer, and two sizes."""


def check_child(subject: str, data: bytes, headers: Mapping[str, str], *, max_payload: int) -> None:
    """Raise what nats-py has for a child that a server refuses, and `UsageError` for what is none.

    A server closes the connection at a message that is larger than its ``max_payload`` with its headers; nats-py looks
    at the data only, and only when it sends. Raises `UnicodeEncodeError` for a text that cannot be sent.
    """
    if not isinstance(data, bytes) or not all(isinstance(value, str) for value in headers.values()):
        raise UsageError("a child of NATS has bytes as data, and texts as headers")
    if not subject or re.search(r"[ \t\r\n]", subject) or len(subject.encode()) > MAX_SUBJECT_BYTES:
        raise BadSubjectError
    named = {name.strip(): value.strip() for name, value in headers.items() if name.strip()}
    for name in named:
        if not HEADER_NAME.fullmatch(name):
            raise BadHeaderError(name)
    lines = ["NATS/1.0", *(f"{name}: {value}" for name, value in named.items()), "", ""]
    if len("\r\n".join(lines).encode()) + len(data) > max_payload:
        raise MaxPayloadError
