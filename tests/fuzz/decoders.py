"""What is fuzzed in one process: each target takes any bytes, and raises for what the code under it must not do."""

import re
from collections.abc import Callable
from typing import Any

from acker_client._core import hot_path
from acker_protocol.anchors import Anchors, parse_anchors, read_anchors
from acker_protocol.errors import InvalidHeader, InvalidRequest, ServiceError, UsageError
from acker_protocol.operations import Ack, Fail, ResetTimeout
from acker_protocol.wire import operations as json_codec
from acker_protocol.wire.packed import CONTENT_TYPE, encode_packed
from acker_service import setting_errors
from acker_service.delivery.response import ReceiverResponse, ResultKind, classify
from acker_service.http.keys import parse_keys
from acker_service.http.plain_requests import PlainRequests
from acker_service.operations import decoding
from acker_service.settings import Settings
from acker_service.topologies.cursors import FailureList, ListKind, PendingRootList, SpoutList
from pydantic import ValidationError

from tests.fuzz.reader import Reader
from tests.support.hot_path_forms import MODULES, both, context, outcome
from tests.unit.service.http.test_plain_requests import assert_parsed_alike, find
from tests.unit.service.operations import test_decoding as judged

Target = Callable[[bytes], None]

TEXT_SETTINGS = tuple(name for name, field in Settings.model_fields.items() if name not in ("data_dir", "open"))
PASSWORD = "s3cr3t-of-redis"
INCARNATION = "0000019aa9af5b6e"
LISTS = (
    SpoutList(kind=ListKind.COMPLETIONS, incarnation=INCARNATION, spout_task="orders", spout_index=1),
    SpoutList(kind=ListKind.DEAD_LETTERS, incarnation=INCARNATION, spout_task="orders", spout_index=1),
    PendingRootList(incarnation=INCARNATION),
    FailureList(incarnation=INCARNATION),
)
_LONG_HEX = re.compile(r"[0-9a-fA-F]{40}")


def json_batch(data: bytes) -> None:
    """A batch in JSON is judged as the reference codec judges it."""
    assert judged.outcome(json_codec.CONTENT_TYPE, data) == judged.reference(json_codec.CONTENT_TYPE, data)


def packed_batch(data: bytes) -> None:
    """So is a packed one; and what is taken is the same after it was packed again."""
    taken = judged.outcome(CONTENT_TYPE, data)
    assert taken == judged.reference(CONTENT_TYPE, data)
    if isinstance(taken, list):
        assert judged.outcome(CONTENT_TYPE, encode_packed(taken), most=len(taken) + 1) == taken


def operation(data: bytes) -> None:
    """A single operation is judged as the reference codec judges it."""
    verb, body = json_codec.VERBS[data[0] % len(json_codec.VERBS)] if data else "ack", data[1:]

    def reference() -> Any:
        return json_codec.decode_operation(verb, json_codec.decode_json(body))

    taken, wanted = _judged(lambda: decoding.decode_operation(verb, body)), _judged(reference)
    assert taken == wanted


def header(data: bytes) -> None:
    """The header is read, or refused with words; both forms of the hot path read it as the protocol does."""
    text = data.decode("latin-1")
    try:
        anchors = parse_anchors(text)
    except InvalidHeader:
        anchors = None
    if anchors is not None and anchors.anchors:
        assert read_anchors(anchors.headers(), topology=anchors.topology) == anchors
    for headers in ({"Acker-Anchors": text}, [("acker-anchors", data)]):
        expected = _judged(lambda headers=headers: read_anchors(headers, topology="default"))  # type: ignore[misc]
        for module in MODULES:
            received = _judged(lambda module=module, headers=headers: _received(module, headers))  # type: ignore[misc]
            assert received == expected, module


def _received(module: Any, headers: Any) -> Anchors:
    return context(module).receive(headers, "count", "fail", False).anchors  # type: ignore[no-any-return] # noqa: FBT003


def headers(data: bytes) -> None:
    """Headers in any of the forms of libraries give the same in both forms of the hot path."""
    reader = Reader(data)
    kind, pairs = reader.choice((dict, list, tuple)), []
    while reader and len(pairs) < 8:
        name: Any = reader.choice(("Acker-Anchors", "acker-anchors", b"ACKER-ANCHORS", "HTTP_ACKER_ANCHORS", None, 5))
        value: Any = reader.text()
        pairs.append(
            (name if name != 5 else reader.text(), value if reader.number() % 2 else value.encode(errors="replace"))
        )
    compiled, source = both(lambda module: str(_received(module, kind(pairs))))
    assert compiled == source


def children(data: bytes) -> None:
    """Keys give the same children, or the same error, in both forms of the hot path."""
    reader = Reader(data)
    root, edge, component = reader.number(8) or 1, reader.number(8) or 1, reader.text()
    keys = [reader.text() for _ in range(reader.number() % 6)]

    def made(module: Any) -> Any:
        own = module.EdgeSet(root, edge, component)
        return [outcome(lambda key=key: own.add_child(key)) for key in keys], own.ack_val, own.outstanding, own.children  # type: ignore[misc]

    compiled, source = both(made)
    assert compiled == source


def folding(data: bytes) -> None:
    """Operations fold, and are packed, in the same way in both forms of the hot path."""
    reader, steps = Reader(data), list[tuple[str, tuple[Any, ...]]]()
    while reader and len(steps) < 200:
        name, root = reader.choice(("fold_ack", "add_ack", "add")), reader.number() % 4 or reader.number(8) or 1
        edge, value, count = reader.number(8) or 1, reader.number(8), reader.signed()
        component = reader.choice((None, "count", "split", "zählen", ""))
        ended = reader.choice(
            (
                Fail(root_id=root),
                ResetTimeout(root_id=root),
                Ack(root_id=root, ack_val=value, outstanding=count, edge_id=edge),
            )
        )
        steps.append((name, ([ended],) if name == "add" else (root, edge, value, count, component)))

    def gathered(module: Any) -> Any:
        operations = module.FoldedOperations()
        for name, arguments in steps:
            getattr(operations, name)(*arguments)
        return list(operations.operations()), operations.operations().packed(), len(operations)

    compiled, source = both(gathered)
    assert compiled == source


def cursor(data: bytes) -> None:
    """A cursor is refused with words, or names rows, which are the same after they were written again."""
    text = data.decode("latin-1")
    for each in LISTS:
        try:
            rows = each.decode(text)
        except InvalidRequest:
            continue
        if rows is not None:
            assert each.decode(each.encode(rows)) == rows


def settings(data: bytes) -> None:
    """A setting is taken or described; no error shows the password of Redis."""
    reader = Reader(data)
    name, text = reader.choice(TEXT_SETTINGS), reader.rest().decode(errors="replace")
    secret = name == "redis_url"
    try:
        Settings(**{name: text.replace("PASSWORD", PASSWORD) if secret else text})
    except ValidationError as error:
        described = [setting_errors.describe(dict(each), Settings.model_fields) for each in error.errors()]
        assert described
        assert not any(PASSWORD in each for each in described)


def keys_file(data: bytes) -> None:
    """A file of keys is taken, or refused without showing a hash."""
    try:
        parse_keys(data)
    except ValueError as error:
        described = str(error)
    else:
        described = ""
    assert not _LONG_HEX.search(described), described


def webhook_answer(data: bytes) -> None:
    """Whatever a receiver answers is one of the five outcomes, for no other completions than those that were sent."""
    reader = Reader(data)
    status, delimited = 100 + reader.number(2) % 500, bool(reader.number() % 2)
    retry_after, ids = reader.text(), ("msg_1", "msg_2")
    response = ReceiverResponse(status=status, retry_after=retry_after, delimited=delimited, body=reader.rest())
    result = classify(response, ids, now=1_900_000_000.0, wait_max_s=3_600.0)
    assert set(result.retry_ids) <= set(ids)
    assert 0.0 <= result.wait_s <= 3_600.0
    assert (result.kind is ResultKind.DONE) == (not result.retry_ids)


def plain_request(data: bytes) -> None:
    """A request that is read as a plain one is what the parser of HTTP reads."""
    plain = PlainRequests(find)
    for _ in range(2):
        assert_parsed_alike(plain, data)


def _judged(function: Callable[[], Any]) -> Any:
    """Return what a function gives, or the error that callers are told of; any other one is raised."""
    try:
        return function()
    except ServiceError as problem:
        return type(problem), problem.detail, problem.extra
    except (InvalidHeader, UsageError) as error:
        return type(error), str(error)


assert hot_path in MODULES
