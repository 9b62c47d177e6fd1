"""The store of an acker in memory: roots, spout tasks with their mailboxes, idempotency keys."""

from collections import deque
from typing import TYPE_CHECKING, Any

from acker_protocol import errors, idempotency, tree
from acker_protocol.ids import format_id, parse_id
from acker_protocol.operations import REFUSED, CompletionRecord, Fail, Init, Operation, OperationState
from acker_protocol.states import Finished, State, TopologyRules, Tree
from acker_protocol.wire.completions import encode_completion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from acker_client.testing.clock import Clock

INCARNATION = "1"

Document = dict[str, Any]
Identity = tuple[str, str, bytes]


class MemoryStore:
    """One topology. Overdue roots are ended by every call."""

    def __init__(
        self, clock: "Clock", *, rules: TopologyRules, max_spout_pending: int | None, max_early: int | None
    ) -> None:
        self.clock = clock
        self.rules = rules
        self.max_spout_pending = max_spout_pending
        self.max_early = max_early
        self.is_full = False
        self.refusals: deque[OperationState] = deque()
        self.applied: list[Operation] = []
        self.released = 0
        self._sequence = 0
        self.empty()

    def empty(self) -> None:
        """Forget everything."""
        self.roots: dict[int, State] = {}
        self.ephemeral: set[str] = set()
        self.mailboxes: dict[str, list[tuple[int, Document]]] = {}
        self._keys: dict[Identity, frozenset[int]] = {}

    def _now_ms(self) -> int:
        return round(self.clock.now * 1000)

    def write(self, identity: Identity, operations: list[Operation]) -> list[OperationState]:
        """Apply a request once; a repeat is answered without effect."""
        self.tick()
        if identity in self._keys:
            return [
                self._replay(operation, was_refused=index in self._keys[identity])
                for index, operation in enumerate(operations)
            ]
        states = [self._apply(operation) for operation in operations]
        refused = frozenset(index for index, state in enumerate(states) if state in REFUSED)
        if not refused or identity[0].endswith("/batch"):
            self._keys[identity] = refused
        return states

    def answer(self, method: str, what: tuple[str, ...], name: str, parameters: "Mapping[str, Any]") -> Document:
        """Answer what is not an operation. Raises `NotFound`."""
        self.tick()
        match method, what:
            case "GET", ("roots",):
                return self._awaited_root(parse_id(name), int(parameters.get("wait_ms", 0)))
            case "POST", ("roots",) if name == "states":
                return {"roots": [self._state(parse_id(root_id)) for root_id in parameters["root_ids"]]}
            case "POST", ("roots", "fail"):
                return self._fail_root(parse_id(name), parameters.get("reason"))
            case "PUT", ("spouts",):
                return self._put_spout(name, parameters)
            case "GET", ("spouts",):
                return self._spout(name)
            case "GET", ("spouts", "completions"):
                return self._read(name, parameters)
            case "POST", ("spouts", "completions", "release"):
                return self._release(name, int(parameters["cursor"]))
        raise errors.NotFound("there is nothing at this address")

    def pending(self, spout_task: str) -> int:
        """Count the pending roots of a spout task."""
        return sum(isinstance(root, Tree) and root.spout_task == spout_task for root in self.roots.values())

    def tick(self) -> None:
        """End overdue roots."""
        for root_id, state in list(self.roots.items()):
            self.roots[root_id], completion = tree.expire(state, now_ms=self._now_ms(), rules=self.rules)
            self._add_completion(completion)

    def _replay(self, operation: Operation, *, was_refused: bool) -> OperationState:
        return idempotency.replay_operation(self.roots.get(operation.root_id), operation, refused=was_refused)

    def _apply(self, operation: Operation) -> OperationState:
        if isinstance(operation, Init) and self.refusals:
            return self.refusals.popleft()
        free = self._free_slots(operation.spout_task) if isinstance(operation, Init) else None
        state = self.roots.get(operation.root_id)
        if self.is_full and isinstance(operation, Init) and (state is None or _is_early(state)):
            return OperationState.STORE_FULL
        step = tree.apply_operation(
            state,
            operation,
            now_ms=self._now_ms(),
            rules=self.rules,
            free_slots=free,
            free_early=self._free_early(),
            free_edges=0 if self.is_full and not _is_early(state) else None,
            is_full=self.is_full,
        )
        self.roots[operation.root_id] = step.state
        if step.operation_state not in REFUSED:
            self.applied.append(operation)
            if isinstance(operation, Init):
                self.mailboxes.setdefault(operation.spout_task, [])
        self._add_completion(step.completion)
        return step.operation_state

    def _free_slots(self, spout_task: str) -> int | None:
        return None if self.max_spout_pending is None else self.max_spout_pending - self.pending(spout_task)

    def _free_early(self) -> int | None:
        if self.is_full:
            return 0
        return None if self.max_early is None else self.max_early - sum(map(_is_early, self.roots.values()))

    def _add_completion(self, completion: CompletionRecord | None) -> None:
        if completion is not None:
            self._sequence += 1
            document = encode_completion(completion, incarnation=INCARNATION)
            self.mailboxes.setdefault(completion.spout_task, []).append((self._sequence, document | {"new_field": 1}))

    def _awaited_root(self, root_id: int, wait_ms: int) -> Document:
        root = self._root(root_id)
        if root["state"] == "finished" or not wait_ms:
            return root
        self.clock.advance(wait_ms / 1000)
        self.tick()
        return self._root(root_id)

    def _root(self, root_id: int) -> Document:
        match tree.forget_expired(self.roots.get(root_id), now_ms=self._now_ms(), rules=self.rules):
            case Finished(outcome=outcome):
                return {"root_id": format_id(root_id), "state": "finished", "outcome": outcome}
            case Tree() as state:
                name = "early" if state.spout_task is None else "pending"
                return {"root_id": format_id(root_id), "state": name, "deadline_at_ms": state.deadline_ms}
        raise errors.UnknownRoot(f"there is no root {format_id(root_id)}")

    def _state(self, root_id: int) -> Document:
        try:
            root = self._root(root_id)
        except errors.UnknownRoot:
            root = {"root_id": format_id(root_id), "state": "unknown"}
        return {name: value for name, value in root.items() if name != "deadline_at_ms"}

    def _fail_root(self, root_id: int, reason: str | None) -> Document:
        root = self._root(root_id)
        state = self._apply(Fail(root_id=root_id, reason="forced" if reason is None else f"forced: {reason}"))
        return root | {"state": state}

    def _put_spout(self, name: str, parameters: "Mapping[str, Any]") -> Document:
        self.mailboxes.setdefault(name, [])
        if parameters.get("ephemeral"):
            self.ephemeral.add(name)
        return self._spout(name)

    def _spout(self, name: str) -> Document:
        unread = len(self._mailbox(name))
        ephemeral = name in self.ephemeral
        return {"spout_task": name, "ephemeral": ephemeral, "pending": self.pending(name), "unread": unread}

    def _mailbox(self, spout_task: str) -> list[tuple[int, Document]]:
        if spout_task not in self.mailboxes:
            raise errors.UnknownSpout(f"there is no spout task {spout_task}")
        return self.mailboxes[spout_task]

    def _read(self, spout_task: str, parameters: "Mapping[str, Any]") -> Document:
        after = int(parameters.get("after", 0))
        found = self._after(spout_task, after)
        if not found:
            self.clock.advance(int(parameters["wait_ms"]) / 1000)
            self.tick()
            found = self._after(spout_task, after)
        page = found[: int(parameters["limit"])]
        return {"completions": [document for _, document in page], "cursor": str(page[-1][0] if page else after)}

    def _after(self, spout_task: str, cursor: int) -> list[tuple[int, Document]]:
        return [entry for entry in self._mailbox(spout_task) if entry[0] > cursor]

    def _release(self, spout_task: str, cursor: int) -> Document:
        kept = self._after(spout_task, cursor)
        released = len(self._mailbox(spout_task)) - len(kept)
        self.released += released
        self.mailboxes[spout_task] = kept
        return {"released": released}


def _is_early(state: State) -> bool:
    return isinstance(state, Tree) and state.spout_task is None
