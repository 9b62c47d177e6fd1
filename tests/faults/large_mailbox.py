"""A mailbox whose full page has 5 MB: what a client that does not read leaves in the acker's hands."""

from acker_protocol.ids import format_id

from tests.support.servers import AckerProcess

DEFAULT = "/v1/topologies/default"
COMPLETIONS = f"{DEFAULT}/spouts/orders/completions"
COMPLETED = 10_000
UNREAD_PAGES = 60
WINDOW = 4_096
"""Bytes that a client which does not read takes in all the same."""
_MESSAGE_ID = "m" * 1_024


def fill(acker: AckerProcess) -> None:
    """Complete many roots, whose completions are large."""
    for first in range(1, COMPLETED, 1_000):
        emitted = {"op": "init", "spout_task": "orders", "edges": [], "message_id": _MESSAGE_ID}
        ops = [emitted | {"root_id": format_id(root)} for root in range(first, first + 1_000)]
        assert acker.http.post(f"{DEFAULT}/batch", json={"ops": ops}).is_success
