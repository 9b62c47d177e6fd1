"""A batch that is being collected: one root, held open while its producers anchor to it."""

import threading
from typing import TYPE_CHECKING

from acker_client.errors import TupleClosed

if TYPE_CHECKING:
    from acker_protocol.anchors import Anchors

    from acker_client._core.tuple_base import BaseTuple

DEFAULT_SPOUT = "batches"


class Collection:
    """A batch that is open; its producers anchor to it from any thread."""

    __slots__ = ("_lock", "_sealed", "_tup", "message_id", "root_id")

    def __init__(self, tup: "BaseTuple", *, message_id: str, root_id: str) -> None:
        self.message_id = message_id
        self.root_id = root_id
        self._tup = tup
        self._lock = threading.Lock()
        self._sealed = False

    def __str__(self) -> str:
        return f"batch {self.message_id!r} (root {self.root_id})"

    def anchor(self, key: str | None = None) -> "Anchors":
        """Anchor a child to the batch. Raises `DuplicateKey`, and `TupleClosed` once the block has ended."""
        with self._lock:
            self._check_open()
            return self._tup.anchor(key)

    def headers(self, key: str | None = None) -> dict[str, str]:
        """Anchor a child to the batch, and give the header for its message. See `anchor`."""
        with self._lock:
            self._check_open()
            return self._tup.headers(key)

    def seal(self) -> None:
        """Take no more children: one that another thread is making is in the batch, any later one is refused."""
        with self._lock:
            self._sealed = True

    def _check_open(self) -> None:
        if self._sealed:
            raise TupleClosed(f"{self} is sealed: its block has ended, and nothing can be anchored to it any more")
