"""Acks tuples without a flow, where nothing is to be done but to buffer their acks."""

from typing import TYPE_CHECKING, ClassVar

from acker_client._core.batch import open_batches

if TYPE_CHECKING:
    from acker_client._core.edges import EdgeSet
    from acker_client._core.flusher import Flusher
    from acker_client._core.retry import RetrySession


class FastPath:
    """Does what the flows of `Submitter` do where they would yield no effect and raise nothing.

    Every method gives False where it does not apply: then nothing was changed, and the flow has to be run. ``enabled``
    switches it off, so that tests run every flow.
    """

    __slots__ = ("_buffer", "_flusher", "_session")

    enabled: ClassVar[bool] = True

    def __init__(self, session: "RetrySession", flusher: "Flusher") -> None:
        self._session, self._flusher, self._buffer = session, flusher, flusher.buffer

    def open(self) -> bool:
        """Begin the block of a tuple for which the topology need not be known; as `Submitter.open`."""
        return self.enabled and not self._buffer.has_failures

    def ack(self, ids: tuple[int, ...], edges: "list[EdgeSet] | None", component: str) -> bool:
        """Buffer the acks of a tuple; as `Submitter.ack`. See `AckBuffer.add_quickly`.

        Applies outside of batches, to acks that linger and whose roots are not traced, once the topology was read.
        """
        if not ids:
            return self.open()
        info = self._session.cached_info
        if info is None or not self.enabled or open_batches() or not self._flusher.is_buffering:
            return False
        if any(map(info.is_traced, ids[::2])):
            return False
        return self._buffer.add_quickly(ids, edges, component, fold=not info.dedupes)
