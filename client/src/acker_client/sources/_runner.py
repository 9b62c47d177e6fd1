"""What the sources share: emits the roots of messages in batches, and reads completions in a thread of its own."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from acker_client._core import validate
from acker_client.errors import AckerError, BatchError, UsageError

if TYPE_CHECKING:
    from acker_client.completions import Completion
    from acker_client.root import Root
    from acker_client.sync.client import Acker

MAX_EMIT = 100
"""So many messages are emitted together at most."""

RETRY_WAIT_S = 1.0
"""How long to wait before a source asks again: the acker, for messages that it did not accept, or its queue."""

POLL_S = 1.0
READER_JOIN_S = 5.0
"""How long to wait for the reader of completions at the end; it ends later if the acker does not answer."""

M = TypeVar("M")

_log = logging.getLogger("acker_client")


class PendingMessages(Generic[M]):
    """The messages whose roots are pending, by root id; for any number of threads."""

    def __init__(self) -> None:
        self._pending: dict[str, M] = {}
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, root_id: str, message: M) -> None:
        """Add a message, before its completion can come."""
        with self._changed:
            self._pending[root_id] = message

    def pop(self, root_id: str) -> M | None:
        """Remove a message; None if its completion came before, or it was dropped."""
        with self._changed:
            message = self._pending.pop(root_id, None)
            self._changed.notify_all()
            return message

    def drop(self, is_gone: Callable[[M], bool]) -> None:
        """Remove the messages that the source delivers again: completions of their roots settle nothing."""
        with self._changed:
            self._pending = {root: each for root, each in self._pending.items() if not is_gone(each)}
            self._changed.notify_all()

    def messages(self) -> list[M]:
        """Return those that are pending."""
        with self._changed:
            return list(self._pending.values())

    def wait_until_below(self, limit: int, *, within: float) -> bool:
        """Wait until fewer messages are pending; False after ``within`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._pending) < limit, within)

    def wait_until_empty(self, *, within: float) -> bool:
        """Wait until no message is pending; False after ``within`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending, within)


class Settlements(Generic[M]):
    """What becomes of a message whose tree failed or timed out: the same of each, or what a function says.

    Raises `UsageError` for another word than ``words``, also where the function returns one: it may mean that the
    message is to come again, and then it would be lost.
    """

    def __init__(self, on_failed: "str | Callable[[Completion, M], str]", *words: str) -> None:
        self._on_failed = on_failed
        self._words = words
        if not callable(on_failed):
            validate.one_of("on_failed", on_failed, *words)

    def find(self, completion: "Completion", message: M) -> str:
        """Return the word for a message."""
        if not callable(self._on_failed):
            return self._on_failed
        found = self._on_failed(completion, message)
        validate.one_of("what on_failed returns", found, *self._words)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Handlers(Generic[M]):
    """What a source does with its messages.

    ``message_id`` gives None for a message that is not tracked: ``on_untracked`` is called before it is sent. ``send``
    raises ``rejection`` for a message that is not emitted: ``on_rejected`` is called. ``on_completion`` is called with
    every completion, in the thread that reads them.
    """

    message_id: Callable[[M], str | None]
    send: "Callable[[Root, M], Any]"
    rejection: type[Exception]
    on_rejected: Callable[[M], None]
    on_untracked: Callable[[M], None]
    on_completion: "Callable[[Completion], None]"


class Runner(Generic[M]):
    """Emits a root for each message of a source, and reads the completions of its spout task."""

    def __init__(self, acker: "Acker", *, spout: str, handlers: Handlers[M]) -> None:
        self._acker = acker
        self.spout = acker.spout(spout)
        self._handlers = handlers
        self.pending = PendingMessages[M]()
        self._has_run = False
        self._is_refused, self._emitted = False, 0
        self._has_begun = threading.Event()
        """Set with the first root, and at the end: before, the spout task has no completions to be asked for."""
        self._ended = threading.Event()
        self.error: BaseException | None = None
        """What ends the source: raised by ``send``, or by what handles completions."""

    def begin(self, source: object) -> None:
        """Begin to run a source. Raises `UsageError` the second time: nobody would read completions."""
        if self._has_run:
            raise UsageError(f"run() runs once: make another {type(source).__name__}")
        self._has_run = True

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read completions, in a thread of its own, until the block is left."""
        reader = threading.Thread(target=self._read, name="acker-completions", daemon=True)
        reader.start()
        try:
            yield
        finally:
            self._ended.set()
            self._has_begun.set()
            reader.join(READER_JOIN_S)

    def emit(self, messages: Iterable[M]) -> list[M]:
        """Emit roots together; return the messages of those that the acker did not accept, or did not answer for.

        After a refusal one message is tried alone until the acker accepts its root: each try calls ``send``, which
        sends children of another root. Raises what ``send`` raises, and `UsageError`.
        """
        rest = iter(messages)
        while self._is_refused and (first := list(islice(rest, 1))):
            emitted = self._emitted
            if refused := self._emit_together(first):
                return [*refused, *rest]
            # A message that is rejected or untracked begins no root: it does not tell whether the acker takes one.
            self._is_refused = self._emitted == emitted
        refused = self._emit_together(rest)
        self._is_refused = self._is_refused or bool(refused)
        return refused

    def _emit_together(self, messages: Iterable[M]) -> list[M]:
        waiting, roots = deque(messages), list[str]()
        try:
            with self._acker.batch():
                while waiting:
                    self._emit_one(waiting[0], roots)
                    waiting.popleft()
        except BatchError as error:
            return self._take_back([f"{result.operation.root_id:016x}" for result in error.results], error)
        except AckerError as error:
            if isinstance(error, UsageError) or self.error is not None:
                raise
            return [*self._take_back(roots, error), *waiting]
        return []

    def _emit_one(self, message: M, roots: list[str]) -> None:
        message_id = self._handlers.message_id(message)
        if message_id is None:
            self._handlers.on_untracked(message)  # before it is sent: else it could be both sent and delivered again
        try:
            with self.spout.emit(message_id=message_id) as root:
                if message_id is not None:
                    self.pending.add(root.root_id, message)
                    self._has_begun.set()
                    roots.append(root.root_id)
                self._send(root, message)
            self._emitted += message_id is not None
        except self._handlers.rejection as error:
            _log.warning("message %r was rejected: %s", message_id, error)
            if self.pending.pop(root.root_id) is not None:
                self._handlers.on_rejected(message)

    def _send(self, root: "Root", message: M) -> None:
        try:
            self._handlers.send(root, message)
        except self._handlers.rejection:
            raise
        except BaseException as error:
            self.error = error  # also if it is an error of the acker: it ends the source
            raise

    def _take_back(self, roots: list[str], error: Exception) -> list[M]:
        _log.warning("%d roots could not be emitted: %s", len(roots), error)
        return [message for root_id in roots if (message := self.pending.pop(root_id)) is not None]

    def _read(self) -> None:
        """Read completions from the first root until the end, also while the acker does not answer."""
        self._has_begun.wait()
        try:
            while not self._ended.is_set():
                try:
                    for completion in self.spout.completions(poll_timeout=POLL_S, stop=self._ended.is_set):
                        self._handle(completion)
                except UsageError:
                    raise
                except AckerError as error:
                    _log.warning("completions cannot be read: %s", error)
                    self._ended.wait(POLL_S)
        except _HandlingFailed as failed:
            self.error = failed.__cause__
        except BaseException as error:  # noqa: BLE001 - run() of the source raises it
            self.error = error

    def _handle(self, completion: "Completion") -> None:
        """Handle a completion. An error of the acker here is one of the program's: it ends the source as any other."""
        try:
            self._handlers.on_completion(completion)
        except Exception as error:
            raise _HandlingFailed from error


class _HandlingFailed(Exception):
    """A function of the program has raised, with the completion of a message."""
