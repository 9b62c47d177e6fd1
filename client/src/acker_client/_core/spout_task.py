"""A spout task in this process: its registration, its free slots, and the roots whose completions it awaits."""

from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

from acker_protocol.errors import MaxSpoutPending, NotFound, UnknownSpout
from acker_protocol.operations import Outcome

from acker_client._core import requests, responses
from acker_client._core.effects import Flow, Remaining, Sleep
from acker_client._core.pending_limit import PendingLimit
from acker_client._core.pending_roots import GRACE_S, PendingRoots
from acker_client.errors import AckerError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from acker_client._core.retry import RetrySession
    from acker_client.completions import Completion
    from acker_client.root import Root

    Handled = Callable[[tuple[Completion, ...]], None]


class RefusalObserver(Protocol):
    """Is called for each root of a spout task whose init was refused in a batch."""

    def drop_refused(self, root_id: str) -> None:
        """Forget a root, if it was emitted here."""


class SpoutTask:
    """One spout task of one client.

    ``own`` is a name that no other process has; ``receives`` is True once its completions are read here. ``handled`` is
    called with completions that were handled.
    """

    def __init__(self, session: "RetrySession", *, name: str, own: bool, handled: "Handled | None" = None) -> None:
        self.name = name
        self.own = own
        self.receives = own
        self.registered = not own
        self.pending = PendingRoots()
        self._is_parents = False
        self.handled = handled
        self._observers: WeakSet[RefusalObserver] = WeakSet()
        self._session = session
        self._clock = session.config.clock
        self._limit = PendingLimit()

    def tell_handled(self, completions: "tuple[Completion, ...]") -> None:
        """Call ``handled`` with completions that were handled and are about to be released."""
        if completions and self.handled is not None:
            self.handled(completions)

    def after_fork(self) -> None:
        """Become the child's copy: its roots belong to the parent, and so does a name of its own."""
        self.pending = PendingRoots()
        self._is_parents = self.own

    def check_not_forked(self) -> None:
        """Raise `UsageError` for a name that belongs to the parent of a fork: one name has one reader."""
        if self._is_parents:
            raise UsageError(f"{self.name} is the spout task of the process that was forked; call spout() after a fork")

    def admit(self, *, in_batch: bool) -> Remaining[None]:
        """Let a root be emitted: nothing is left to do where the name is registered and the topology has no cap.

        In a batch the slots are checked at its end.
        """
        info = self._session.cached_info
        if info is None or not self.registered or not self._session.is_info_recent:
            return self.register() if in_batch else self._acquire_slot()
        return None if in_batch or info.max_spout_pending is None else self._acquire_slot()

    def _acquire_slot(self) -> Flow[None]:
        """Wait for a free slot, where the topology has a cap. Raises `MaxSpoutPending` after ``emit_timeout``."""
        since, delays = self._clock.monotonic(), self._session.config.backoff_delays()
        yield from self.register()
        while not (yield from self._try_acquire()):
            if self._clock.monotonic() - since >= self._session.config.emit_timeout:
                raise MaxSpoutPending(
                    f"{self.name} has as many pending roots as max_spout_pending allows, and none has ended in time"
                )
            yield Sleep(seconds=next(delays))

    def register(self) -> Flow[None]:
        """Register a name of its own as ephemeral, once: no process reads it after this one."""
        yield from self._session.topology_info()
        yield from self._session.refresh_topology()
        if not self.registered:
            yield from self._session.send(requests.make_ephemeral(self._session.topology, self.name))
            self.registered = True

    def max_pending(self) -> Flow[int | None]:
        """Read how many pending roots the topology allows this spout task, None without a cap."""
        info = yield from self._session.topology_info()
        return info.max_spout_pending

    def track(self, root: "Root") -> None:
        """Follow a root whose init is about to be sent, before its completion can come."""
        info = self._session.cached_info
        assert info is not None, "register() has read it"
        if self.receives and root.tracked:
            timeout_s = root.message_timeout or info.message_timeout_ms / 1000
            self.pending.add(root, now_s=self._clock.monotonic(), timeout_s=timeout_s)

    def observe_refusals(self, observer: RefusalObserver) -> None:
        """Call an observer, as long as it is referenced elsewhere, for each root that is refused in a batch."""
        self._observers.add(observer)

    def drop_refused(self, root_id: str) -> None:
        """Forget a root whose init was refused in a batch, here and in the observers."""
        self.pending.drop(root_id)
        for observer in list(self._observers):
            observer.drop_refused(root_id)

    def release(self) -> None:
        """End the emit of a root."""
        self._limit.release()

    def check_overdue(self) -> Flow[None]:
        """Ask the service about every root without a completion at its deadline and a grace."""
        while root_id := self.pending.pop_overdue(self._clock.monotonic()):
            yield from self._check(root_id)

    def _check(self, root_id: str) -> Flow[None]:
        now_s = self._clock.monotonic()
        try:
            response = yield from self._session.send(requests.read_root(self._session.topology, root_id))
            found = responses.document(response)
        except NotFound:
            self._end_unknown(root_id, now_s=now_s)
        except AckerError:
            self.pending.check_at(root_id, at_s=now_s + GRACE_S)
        else:
            self._apply_state(root_id, found)

    def _apply_state(self, root_id: str, found: dict[str, object]) -> None:
        """Follow the answer. An early root is one whose init the store has lost, and acks came after that."""
        match found:
            case {"state": "finished", "outcome": str(outcome)}:
                self.pending.mark_ended(root_id, Outcome(outcome))
            case {"state": "pending", "deadline_at_ms": int(deadline_ms)}:
                left_s = deadline_ms / 1000 - self._clock.time()
                self.pending.extend(root_id, left_s=left_s, now_s=self._clock.monotonic())
            case _:
                self._end_unknown(root_id, now_s=self._clock.monotonic())

    def _end_unknown(self, root_id: str, *, now_s: float) -> None:
        """End a root that the service does not know; one whose init may still be on its way is asked about again."""
        config = self._session.config
        if self.pending.may_begin(root_id, since_s=now_s - config.retry_timeout - config.emit_timeout):
            self.pending.check_at(root_id, at_s=now_s + GRACE_S)
        else:
            self.pending.mark_ended(root_id, Outcome.TIMED_OUT)

    def _try_acquire(self) -> Flow[bool]:
        info = yield from self._session.topology_info()
        if info.max_spout_pending is None or self._limit.try_acquire():
            return True
        self._limit.update(info.max_spout_pending - (yield from self._count_pending()))
        return self._limit.try_acquire()

    def _count_pending(self) -> Flow[int]:
        try:
            response = yield from self._session.send(requests.read_spout(self._session.topology, self.name))
        except UnknownSpout:
            return 0
        return int(responses.document(response).get("pending", 0))
