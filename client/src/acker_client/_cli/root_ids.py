"""Reads which root an argument names: an id, the first digits of one, or a header."""

import argparse
import re
from typing import Any

from acker_protocol import routes
from acker_protocol.anchors import parse_anchors
from acker_protocol.ids import format_id

from acker_client._cli.service import PAGE, Service
from acker_client.errors import AckerError, NotFound, UsageError

DIGITS = 16
MIN_DIGITS = 8
SHOWN = 5

_PREFIX = re.compile(rf"[0-9a-f]{{{MIN_DIGITS},{DIGITS}}}", re.ASCII)


class AmbiguousRoot(AckerError):
    """Several roots begin with these digits."""

    code = "ambiguous_root"


def root_prefix(text: str) -> str:
    """Check that this is a root id, at least 8 digits of one, or a header, which names it; an argparse type."""
    if " " in text.strip():
        try:
            return root_of_header(text)[1]
        except AckerError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    if not _PREFIX.fullmatch(text.lower()):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no root id: give its 16 hex digits, or the first {MIN_DIGITS} or more"
        )
    return text.lower()


def root_of_header(text: str) -> tuple[str, str]:
    """Return the topology and the root id of a header. Raises `InvalidHeader`, and `UsageError` for several roots."""
    anchors = parse_anchors(text)
    ids = {anchor.root_id for anchor in anchors.anchors}
    if len(ids) != 1:
        raise UsageError("the header names several roots: give one root id")
    return anchors.topology, format_id(ids.pop())


def is_root_prefix(text: str) -> bool:
    """Return whether this may be a root id, or the beginning of one."""
    return bool(_PREFIX.fullmatch(text))


def full_root_id(service: Service, topology: str, prefix: str) -> str:
    """Return the id of the one pending or failed root that begins so. Raises `NotFound`, `AmbiguousRoot`."""
    if len(prefix) == DIGITS:
        return prefix
    found = _beginning_with(prefix, service, routes.roots(topology), "roots", "cursor") or _beginning_with(
        prefix, service, f"{routes.topology(topology)}/failures", "failures", "after"
    )
    if not found:
        raise NotFound(
            f"no pending, failed or timed-out root of {topology} begins with {prefix}; give all digits of another one"
        )
    if len(found) > 1:
        shown = ", ".join(found[:SHOWN])
        raise AmbiguousRoot(f"{len(found)} roots of {topology} begin with {prefix}: {shown}; give more digits")
    return found[0]


def _beginning_with(prefix: str, service: Service, path: str, key: str, cursor: str) -> list[str]:
    """Read a list whole, since it is ordered by time, and give the ids that begin so, each once."""
    found: dict[str, None] = {}
    query: dict[str, Any] = {}
    while True:
        page = service.get(path, limit=PAGE, **query)
        found |= dict.fromkeys(one["root_id"] for one in page[key] if one["root_id"].startswith(prefix))
        if page.get("cursor") is None:
            return list(found)
        query[cursor] = page["cursor"]
