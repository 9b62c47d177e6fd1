"""The names of edges as a string of the packed form: 16 hex digits each, one after the other."""

from acker_protocol.errors import InvalidRequest
from acker_protocol.ids import fold, format_id
from acker_protocol.wire.fields import edges

DIGITS = 16


def write_names(edge_ids: tuple[int, ...]) -> str:
    """Write the names of edges."""
    return "".join(map(format_id, edge_ids))


def read_names(text: str) -> tuple[int, ...]:
    """Read the names of edges. Raises `InvalidRequest`."""
    if len(text) % DIGITS:
        raise InvalidRequest(f"the names of edges must be {DIGITS} digits each, not {len(text)} characters together")
    try:
        return edges([text[at : at + DIGITS] for at in range(0, len(text), DIGITS)])
    except ValueError as error:
        raise InvalidRequest(f"the names of edges {error}") from None


def check_names(names: tuple[int, ...], *, acked: int | None, ack_val: int, outstanding: int | None) -> None:
    """Refuse names that do not give the ack val and the count of their operation.

    ``acked`` is the edge that an ack acks, None for an init. Raises `InvalidRequest`.
    """
    own = () if acked is None else (acked,)
    if acked in names or fold((*own, *names)) != ack_val or len(names) - len(own) != outstanding:
        raise InvalidRequest("the names of edges must give ack_val and outstanding")
