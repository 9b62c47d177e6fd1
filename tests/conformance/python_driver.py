"""The driver of the Python client: commands as JSON lines on its standard input, answers on its standard output.

docs/clients.md says what each command does. Run as a program, outside of the package of tests.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import uvicorn
from acker_client import Acker, AckerError, AsyncAcker, DropTuple, FailTuple, propagate, webhook_app
from acker_client._core.requests import Request
from acker_client._core.responses import NoResponse, Response, classify
from acker_client._core.waiters import TurnOnly
from acker_client.config import ClientConfig
from acker_client.integrations.asgi import SCOPE_KEY, AckerMiddleware
from acker_client.tuple import AsyncTuple
from acker_protocol import ids, signature
from acker_protocol.anchors import Anchor, Anchors, find_anchors, read_anchors
from acker_protocol.anchors_signature import check_signature, secret_keys, write_signature
from acker_protocol.errors import ServiceError
from acker_protocol.routes import ANCHORS

Command = dict[str, Any]
Handler = Callable[..., Awaitable[Any]]

SECONDS = {
    "linger_ms": "linger",
    "retry_timeout_ms": "retry_timeout",
    "emit_timeout_ms": "emit_timeout",
    "request_timeout_ms": "request_timeout",
    "startup_timeout_ms": "startup_timeout",
    "message_timeout_ms": "message_timeout",
    "progress_timeout_ms": "progress_timeout",
    "poll_timeout_ms": "poll_timeout",
    "until_ms": "until",
}
"""Durations of the protocol, in milliseconds, and the keywords that take them in seconds."""


class Broken(Exception):
    """What a program's own code raises."""


class Vectors:
    """The commands that vectors are played by: they need no acker."""

    async def hello(self) -> Any:
        return {"language": "python"}

    async def read_header(self, *, carrier: str, headers: list[list[str]], topology: str | None = None) -> Any:
        given = _carried(carrier, headers)
        found = find_anchors(given) if topology is None else read_anchors(given, topology=topology)
        if found is None or not found.anchors:
            return None
        return {"topology": found.topology, "anchors": [str(anchor) for anchor in found.anchors]}

    async def write_header(self, *, carrier: str, topology: str, anchors: list[str], others: list[list[str]]) -> Any:
        listed = [Anchor(root_id=int(each[:16], 16), edge_id=int(each[17:], 16)) for each in anchors]
        own, kept = Anchors(topology=topology, anchors=tuple(listed)), _carried(carrier, others)
        if carrier == "kafka":
            return [[name, value and value.decode()] for name, value in own.kafka_headers(kept)]
        return [list(pair) for pair in own.amqp_headers(kept).items()]

    async def derive_edge(self, *, root: str, parent: str, component: str, key: str) -> Any:
        edge = ids.derive_edge(root_id=int(root, 16), parent_edge=int(parent, 16), component=component, name=key)
        return ids.format_id(edge)

    async def derive_from_digest(self, *, root: str, digest: str) -> Any:
        digests, hmac = [bytes.fromhex(digest)], ids._hmac
        ids._hmac = lambda key, text: digests.pop() if digests else hmac(key, text)  # type: ignore[assignment]
        try:
            return await self.derive_edge(root=root, parent="0" * 16, component="", key="")
        finally:
            ids._hmac = hmac

    async def verify_webhook(self, *, secrets: list[str], headers: dict[str, str], body: str, now: float) -> Any:
        try:
            signature.verify(secrets, headers, body.encode(), now=now)
        except ValueError as error:
            return {"refused": str(error)}
        return {"accepted": True}

    async def sign_anchors(self, *, secret: str, anchors: str, now: float) -> Any:
        return write_signature(secret_keys(secret), anchors, now_s=now)

    async def check_signature(self, *, secrets: list[str], headers: list[list[str]], now: float) -> Any:
        check_signature(secret_keys(secrets), [tuple(each) for each in headers], now_s=now)
        return {"accepted": True}

    async def decide(self, *, request: Command, answer: Command | None) -> Any:
        asked = Request(
            method=request["method"], path=request["path"], operations=[None] * request.get("operations", 0)
        )
        failure = classify(asked, _response(answer))
        if failure is None:
            return {"again": False}
        wait_ms = round(1000 * failure.wait_s)
        return {"again": failure.retryable, "wait_ms": wait_ms, "error": _described(failure.error)}

    async def backoff(self, *, attempts: int, jitter: float) -> Any:
        class Clock:
            @staticmethod
            def jitter() -> float:
                return jitter

        delays = ClientConfig(clock=Clock()).backoff_delays()  # type: ignore[arg-type]
        return [round(1000 * next(delays), 3) for _ in range(attempts)]


class Commands(Vectors):
    """All commands, with the clients, tuples and servers that they have made."""

    def __init__(self) -> None:
        self.clients: dict[str, AsyncAcker] = {}
        self.opened: dict[str, Callable[[], Acker]] = {}
        self.queue: list[dict[str, str]] = []
        self.tuples: dict[str, AsyncTuple] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.handled: list[Command] = []
        self.servers: list[tuple[uvicorn.Server, asyncio.Task[None]]] = []

    async def open(self, *, client: str = "main", url: str, **options: Any) -> Any:
        options = _in_seconds(options)
        self.clients[client] = AsyncAcker(url, **options)
        self.opened[client] = partial(Acker, url, **options)
        return {}

    async def close(self, *, client: str = "main") -> Any:
        await self.clients[client].close()
        return {}

    async def reset(self) -> Any:
        """Drop everything, without an error, whatever state it is in."""
        for gate in self.gates.values():
            gate.set()
        for server, task in self.servers:
            server.should_exit = server.force_exit = True
            await task
        for acker in self.clients.values():
            acker._submitter.flusher.buffer.clear()
            with suppress(AckerError):
                await acker.close()
        self.__init__()  # type: ignore[misc]
        return {}

    async def emit(
        self,
        *,
        client: str = "main",
        spout: str,
        shared: bool = False,
        children: Iterable[str | None] = (),
        ambient: bool = False,
        raises: bool = False,
        **options: Any,
    ) -> Any:
        task = self._spout(client, spout, shared=shared)
        headers: list[str | None] = []
        found: Command = {"spout_task": task.name, "headers": headers, "raised": False}
        try:
            async with task.emit(**_in_seconds(options)) as root:
                found["root_id"] = root.root_id
                headers += _children(root, children, ambient=ambient)
                if raises:
                    raise Broken
        except Broken:
            found["raised"] = True
        return found

    async def receive(
        self, *, client: str = "main", header: str | None, component: str, repeatable: bool = False
    ) -> Any:
        tup = self.clients[client].receive(_headers(header), component=component, repeatable=repeatable)
        handle = f"tuple {len(self.tuples) + 1}"
        self.tuples[handle] = tup
        return {"tuple": handle, "tracked": tup.tracked, "anchors": len(tup.anchors.anchors)}

    async def child(self, *, tuple: str, key: str | None = None) -> Any:  # noqa: A002 - the protocol's word
        return {"header": self.tuples[tuple].headers(key).get(ANCHORS)}

    async def join(self, *, client: str = "main", tuples: list[str], key: str | None = None) -> Any:
        anchors = self.clients[client].anchor(*(self.tuples[each] for each in tuples), key=key)
        return {"header": anchors.headers().get(ANCHORS)}

    async def ack(self, *, tuple: str) -> Any:  # noqa: A002
        await self.tuples[tuple].ack()
        return {}

    async def fail(self, *, tuple: str, reason: str | None = None) -> Any:  # noqa: A002
        await self.tuples[tuple].fail(reason)
        return {}

    async def reset_timeout(self, *, tuple: str) -> Any:  # noqa: A002
        await self.tuples[tuple].reset_timeout()
        return {}

    async def process(
        self,
        *,
        client: str = "main",
        header: str | None,
        component: str,
        on_error: Any = "fail",
        repeatable: bool = False,
        children: Iterable[str | None] = (),
        ambient: bool = False,
        gate: str | None = None,
        then: str = "return",
        reason: str = "",
    ) -> Any:
        headers: list[str | None] = []
        found: Command = {"headers": headers, "raised": False}
        before = propagate.current()
        try:
            received = self.clients[client].receive(
                _headers(header), component=component, on_error=on_error, repeatable=repeatable
            )
            async with received as tup:
                if gate is not None:
                    await self._gate(gate).wait()
                headers += _children(tup, children, ambient=ambient)
                await _end(tup, then, reason)
        except Broken:
            found["raised"] = True
        return found | {"restored": propagate.current() is before}

    async def enqueue(self, *, headers: list[str]) -> Any:
        self.queue = [_headers(each) for each in headers]
        return {}

    async def work_off(self, *, client: str = "main", component: str, child_count: int) -> Any:
        """Measured with the client of threads, which most programs use."""
        with self.opened[client]() as acker:
            for headers in self.queue:
                if not child_count:
                    acker.ack(acker.receive(headers, component=component))
                    continue
                with acker.receive(headers, component=component) as tup:
                    for key in range(child_count):
                        tup.headers(key=str(key))
        return {}

    async def open_gate(self, *, gate: str) -> Any:
        self._gate(gate).set()
        return {}

    async def flush(self, *, client: str = "main") -> Any:
        await self.clients[client].flush()
        return {}

    async def stats(self, *, client: str = "main") -> Any:
        found = self.clients[client].stats()
        return {
            "in_flight": found.in_flight,
            "lost": found.lost,
            "dropped": found.dropped_tuples,
            "untracked": found.untracked_tuples,
        }

    async def internals(self, *, client: str = "main") -> Any:
        buffer = self.clients[client]._submitter.flusher.buffer
        return {
            "waiting_for_space": sum(isinstance(each, TurnOnly) for each in buffer.turns._queue),
            "waiting_for_answers": len(buffer._frozen[0].waiters) if buffer._frozen else 0,
            "closing": not buffer.is_lingering,
        }

    async def completions(
        self,
        *,
        client: str = "main",
        spout: str,
        shared: bool = False,
        count: int,
        raise_at: int | None = None,
        gate: str | None = None,
        **options: Any,
    ) -> Any:
        task, seen = self._spout(client, spout, shared=shared), list[Command]()
        found: Command = {"completions": seen, "raised": False}
        try:
            async for each in task.completions(stop=lambda: len(seen) >= count, **_in_seconds(options)):
                seen.append(_completion(each))
                if gate is not None:
                    await self._gate(gate).wait()
                if len(seen) == raise_at:
                    raise Broken
        except Broken:
            found["raised"] = True
        return found

    async def serve_bolt(self, *, client: str = "main", **options: Any) -> Any:
        return await self._serve(AckerMiddleware(_bolt, acker=self.clients[client], **options))

    async def serve_webhook(self, *, secrets: list[str], raise_for: Iterable[str] = ()) -> Any:
        left = list(raise_for)

        def handle(completion: Any) -> None:
            if completion.message_id in left:
                left.remove(completion.message_id)
                raise Broken
            self.handled.append(_completion(completion))

        return await self._serve(webhook_app(secrets, handle))

    async def webhook_handled(self) -> Any:
        return {"completions": self.handled}

    def _spout(self, client: str, name: str, *, shared: bool) -> Any:
        acker = self.clients[client]
        return acker.shared_spout(name) if shared else acker.spout(name)

    def _gate(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(name, asyncio.Event())

    async def _serve(self, application: Any) -> Any:
        config = uvicorn.Config(application, port=0, lifespan="off", log_level="critical")
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110 - uvicorn tells nobody
            await asyncio.sleep(0.005)
        self.servers.append((server, task))
        port = server.servers[0].sockets[0].getsockname()[1]
        return {"url": f"http://127.0.0.1:{port}"}


async def _bolt(scope: Any, receive: Any, send: Any) -> None:
    """The application behind the middleware: the body of a request says what it does."""
    wanted = json.loads((await receive())["body"] or b"{}")
    headers = _children(scope[SCOPE_KEY], wanted.get("children", ()), ambient=True)
    await _end(scope[SCOPE_KEY], wanted.get("then", "return"), wanted.get("reason", ""))
    if wanted.get("gives_up", False):
        while (await receive())["type"] != "http.disconnect":
            pass
        return
    await send({"type": "http.response.start", "status": wanted.get("status", 200), "headers": []})
    more = wanted.get("breaks_off", False)
    body = b"begun" if more else json.dumps({"headers": headers}).encode()
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def _end(tup: AsyncTuple, then: str, reason: str) -> None:
    match then:
        case "raise":
            raise Broken(reason)
        case "fail_tuple":
            raise FailTuple(reason)
        case "drop_tuple":
            raise DropTuple(reason)
        case "ack":
            await tup.ack()
        case "fail":
            await tup.fail(reason)


def _children(parent: Any, keys: Iterable[str | None], *, ambient: bool) -> list[str | None]:
    made = []
    for key in keys:
        headers: dict[str, str] = {}
        if ambient:
            propagate.inject(headers, key)
        else:
            headers = parent.headers(key)
        made.append(headers.get(ANCHORS))
    return made


def _headers(header: str | None) -> dict[str, str]:
    return {} if header is None else {ANCHORS: header}


def _carried(carrier: str, headers: list[list[Any]]) -> Any:
    """Return headers as a library of the carrier gives them."""
    match carrier:
        case "kafka":
            return [(name, None if value is None else value.encode()) for name, value in headers]
        case "amqp":
            return dict(headers)
        case _:
            return [(name.encode(), value.encode()) for name, value in headers]


def _in_seconds(options: Command) -> Command:
    return {
        SECONDS.get(name, name): value / 1000 if name in SECONDS and value is not None else value
        for name, value in options.items()
    }


def _response(answer: Command | None) -> Response | NoResponse:
    if answer is None:
        return NoResponse(error=ConnectionError("no answer"))
    return Response(status=answer["status"], body=answer["body"].encode(), retry_after=answer.get("retry_after", ""))


def _completion(completion: Any) -> Command:
    names = (
        *("id", "root_id", "outcome", "message_id", "reason", "component", "traceparent"),
        *("failures", "dropped", "last_component", "outstanding"),
    )
    last_ms = None if completion.last_ack_at is None else round(1000 * completion.last_ack_at)
    return {name: getattr(completion, name) for name in names} | {"last_ack_at_ms": last_ms}


def _described(error: Exception) -> Command:
    found: Command = {"code": getattr(error, "code", "lost"), "message": str(error)}
    found["retryable"] = getattr(error, "retryable", True)
    if isinstance(error, ServiceError):
        found["status"] = error.extra.get("status", error.status)
    for name in ("outcome_unknown", "operations"):
        if hasattr(error, name):
            found[name] = getattr(error, name)
    return found


async def _answer(commands: Commands, line: bytes, write: Callable[[Command], None]) -> None:
    command = json.loads(line)
    number, do = command.pop("id"), command.pop("do")
    try:
        write({"id": number, "ok": await getattr(commands, do)(**command)})
    except AckerError as error:
        write({"id": number, "error": _described(error)})
    except Exception as error:  # noqa: BLE001 - a fault of the driver; the suite shows it
        write({"id": number, "error": {"code": "driver", "message": repr(error)}})


def _write(answer: Command) -> None:
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.flush()


async def _main() -> None:
    """Answer each command by a task of its own, until the input ends."""
    reader, loop = asyncio.StreamReader(limit=2**24), asyncio.get_running_loop()
    await loop.connect_read_pipe(partial(asyncio.StreamReaderProtocol, reader), sys.stdin)
    commands, tasks = Commands(), set[asyncio.Task[None]]()
    while line := await reader.readline():
        task = asyncio.create_task(_answer(commands, line, _write))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await commands.reset()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the suite ends it
    asyncio.run(_main())
