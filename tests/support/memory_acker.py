"""Knows an acker in memory that speaks the contract to httpx: the law of ``acker_protocol.tree``, faults on demand."""

import json
from collections import deque
from typing import Any
from urllib.parse import parse_qs

import httpx
from acker_protocol import problems, repeats, tree
from acker_protocol.messages import NOT_APPLIED, REFUSED, Init, Message, Word
from acker_protocol.routes import IDEMPOTENCY_KEY
from acker_protocol.states import Rules, State, Tree
from acker_protocol.wire.completions import encode_completion
from acker_protocol.wire.operations import VERBS, decode_batch, decode_json, decode_operation

from tests.support.fake_time import FakeTime

INCARNATION = "1"


class MemoryAcker:
    """One topology, ``default``.

    ``faults`` hit the requests to come, one each, None letting one through: an httpx error is raised before anything
    is applied, or after it if wrapped in `after`; a `Problem` or a response is answered in its place. ``refusals``
    are the words for the inits to come.
    """

    def __init__(self, time: FakeTime, *, rules: Rules | None = None, max_spout_pending: int | None = None) -> None:
        self.time = time
        self.rules = rules or Rules()
        self.max_spout_pending = max_spout_pending
        self.idempotency_window_ms: Any = 600_000
        self.requests: list[httpx.Request] = []
        self.faults: deque[Any] = deque()
        self.refusals: deque[Word] = deque()
        self.roots: dict[int, State] = {}
        self.applied: list[Message] = []
        self.released = 0
        self._keys: dict[tuple[str, str, bytes], int] = {}
        self._mailboxes: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        self._told = 0

    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self._handle)

    def writes(self, verb: str = "") -> list[httpx.Request]:
        """The operations that arrived, of one verb or all."""
        verbs = {verb} if verb else {*VERBS, "batch"}
        return [request for request in self.requests if request.url.path.rpartition("/")[2] in verbs]

    def bodies(self, verb: str) -> list[dict[str, Any]]:
        return [json.loads(request.content) for request in self.writes(verb)]

    def keys(self, verb: str) -> list[str]:
        return [request.headers[IDEMPOTENCY_KEY] for request in self.writes(verb)]

    def unread(self, spout_task: str) -> list[str]:
        """The message ids of the completions not yet released."""
        return [told["message_id"] for _, told in self._mailboxes.get(spout_task, [])]

    def _handle(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        fault = self.faults.popleft() if self.faults else None
        if isinstance(fault, httpx.TransportError):
            raise fault
        if isinstance(fault, httpx.Response):
            return fault
        try:
            if isinstance(fault, problems.Problem):
                raise fault
            answer = self._answer(request)
        except problems.Problem as problem:
            return _refusal(problem)
        if isinstance(fault, after):
            raise fault.error
        return httpx.Response(200, json=answer)

    def _answer(self, request: httpx.Request) -> dict[str, Any]:
        match request.method, request.url.path.split("/")[3:]:
            case "GET", ["default"]:
                return {"topology": "default", "idempotency_window_ms": self.idempotency_window_ms}
            case "POST", ["default", "batch"]:
                words = self._write(request, decode_batch(decode_json(request.content), most=10_000))
                return {"accepted": sum(word not in REFUSED for word in words), "results": words}
            case "POST", ["default", verb] if verb in VERBS:
                return self._single(request, decode_operation(verb, decode_json(request.content)))
            case "GET", ["default", "spouts", spout_task, "completions"]:
                return self._read(spout_task, {key: value[0] for key, value in _query(request).items()})
            case "POST", ["default", "spouts", spout_task, "completions", "release"]:
                return self._release(spout_task, int(decode_json(request.content)["cursor"]))
        raise problems.NotFound("there is nothing at this address")

    def _single(self, request: httpx.Request, message: Message) -> dict[str, Any]:
        [word] = self._write(request, [message])
        if word in REFUSED:
            raise problems.known()[word]("refused")
        return {"root_id": f"{message.root_id:016x}", "state": word}

    def _write(self, request: httpx.Request, messages: list[Message]) -> list[Word]:
        identity = (request.url.path, request.headers[IDEMPOTENCY_KEY], request.content)
        if identity in self._keys:
            refused = self._keys[identity]
            return [repeats.repeat(self.roots.get(m.root_id), m, places_refused=refused) for m in messages]
        words = [self._apply(message) for message in messages]
        if any(word not in REFUSED for word in words):
            self._keys[identity] = sum(word in NOT_APPLIED for word in words)
        return words

    def _apply(self, message: Message) -> Word:
        if isinstance(message, Init) and self.refusals:
            return self.refusals.popleft()
        room = self._room(message.spout_task) if isinstance(message, Init) else None
        state = self.roots.get(message.root_id)
        step = tree.apply(state, message, now_ms=self.time.now_ms, rules=self.rules, room=room)
        self.roots[message.root_id] = step.state
        if step.word not in REFUSED:
            self.applied.append(message)
            if isinstance(message, Init):
                self._mailboxes.setdefault(message.spout_task, [])
        self._tell(step.completion)
        return step.word

    def _room(self, spout_task: str) -> int | None:
        if self.max_spout_pending is None:
            return None
        pending = (root for root in self.roots.values() if isinstance(root, Tree) and root.spout_task == spout_task)
        return self.max_spout_pending - len(list(pending))

    def _tell(self, completion: Any) -> None:
        if completion is not None:
            self._told += 1
            told = encode_completion(completion, incarnation=INCARNATION)
            self._mailboxes.setdefault(completion.spout_task, []).append((self._told, told | {"new_field": 1}))

    def _read(self, spout_task: str, query: dict[str, str]) -> dict[str, Any]:
        after = int(query.get("after", 0))
        for wait_s in (0.0, int(query["wait_ms"]) / 1000):
            self.time.now_s += wait_s
            self._tick()
            if spout_task not in self._mailboxes:
                raise problems.UnknownSpout(spout_task)
            found = [entry for entry in self._mailboxes[spout_task] if entry[0] > after][: int(query["limit"])]
            if found:
                break
        return {"completions": [told for _, told in found], "cursor": str(found[-1][0] if found else after)}

    def _release(self, spout_task: str, cursor: int) -> dict[str, Any]:
        kept = [entry for entry in self._mailboxes[spout_task] if entry[0] > cursor]
        self.released += len(self._mailboxes[spout_task]) - len(kept)
        self._mailboxes[spout_task] = kept
        return {}

    def _tick(self) -> None:
        for root_id, state in self.roots.items():
            self.roots[root_id], completion = tree.expire(state, now_ms=self.time.now_ms)
            self._tell(completion)


class after:  # noqa: N801 - reads as a word: faults.append(after(ReadTimeout("lost")))
    """An error raised after the request was applied: the reply is lost."""

    def __init__(self, error: httpx.TransportError) -> None:
        self.error = error


def _query(request: httpx.Request) -> dict[str, list[str]]:
    return parse_qs(request.url.query.decode())


def _refusal(problem: problems.Problem) -> httpx.Response:
    headers = {"Retry-After": str(problem.extra.get("retry_after_s", 1))} if problem.status in (429, 503) else {}
    return httpx.Response(problem.status, json=problem.document(), headers=headers)
