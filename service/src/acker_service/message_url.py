"""Reads the link template from a message id to the user's own system, as the page `/ui/` links to it."""

import re

PLACE = "{message_id}"
"""Stands in a template for the message id, percent-encoded."""

# The host is fixed: a message id, which anybody may choose who may emit, never chooses where a link leads to.
_TEMPLATE = re.compile(
    r"https?://[^\s/?#{}@\\\"'<>]+[/?#][^\s\\\"'<>{}]*(?:\{message_id\}[^\s\\\"'<>{}]*)+", re.IGNORECASE
)
MAX_CHARACTERS = 2_048


def read_message_url(text: str) -> str:
    """Check a template, such as ``https://shop.example/orders/{message_id}``. Raises ``ValueError``."""
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"has {len(text)} characters; at most {MAX_CHARACTERS} are allowed")
    if not text.isascii() or not text.isprintable() or not _TEMPLATE.fullmatch(text):
        raise ValueError(
            f"{text!r} is no link template: write http:// or https://, a host, and behind the host {PLACE}, "
            f"as in https://shop.example/orders/{PLACE}"
        )
    return text
