"""Nothing breaks on the inputs that the fuzzers kept; and what is broken, they notice."""

import base64
from pathlib import Path
from typing import Any

import pytest
from acker_protocol.errors import InvalidRequest
from acker_service.http import keys
from acker_service.topologies import cursors

from docs.trust import results
from tests.fuzz import __main__ as fuzz
from tests.fuzz import corpus, decoders, sockets, store
from tests.fuzz.reader import Reader
from tests.fuzz.targets import TARGETS, Needs, running
from tests.support.hot_path_forms import MODULES


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_breaks_on_what_is_kept(name: str) -> None:
    with running(TARGETS[name].needs) as address:
        target = TARGETS[name].make(address)
        for each in corpus.read(name):
            target(each)


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.needs is not Needs.NOTHING])
def test_what_is_tried_on_a_server_begins_with_inputs_that_reach_something(name: str) -> None:
    assert len(corpus.read(name)) > 20


def refused(*_: Any) -> Any:
    raise InvalidRequest("no")


class EveryName:
    """Holds every name: functions whose arguments the service makes itself write before they err on others."""

    def __contains__(self, name: object) -> bool:
        return True


def shown(*_: Any) -> Any:
    raise ValueError("ab" * 32)


BROKEN: list[tuple[str, Any, str, Any]] = [
    ("json", decoders.decoding, "decode", refused),
    ("packed", decoders.decoding, "decode", refused),
    ("operation", decoders.decoding, "decode_operation", refused),
    ("header", decoders, "read_anchors", refused),
    ("headers", MODULES[1], "read_anchors", refused),
    ("children", MODULES[1].EdgeSet, "derive", lambda *_: 5),
    ("folding", MODULES[1], "pack", lambda *_: b""),
    ("cursor", cursors.PendingRootList, "encode", lambda *_: "AAAA"),
    ("keys", keys._Document, "model_validate_json", shown),
    ("settings", decoders.setting_errors, "describe", lambda *_: decoders.PASSWORD),
    ("webhook", decoders, "classify", lambda *_, **__: None),
    ("lua", store, "APPLY", EveryName()),
    ("socket", sockets.Answers, "on_message_complete", lambda *_: None),
]


@pytest.mark.parametrize(("name", "module", "part", "instead"), BROKEN, ids=[each[0] for each in BROKEN])
def test_what_is_broken_is_noticed(
    monkeypatch: pytest.MonkeyPatch, name: str, module: Any, part: str, instead: Any
) -> None:
    monkeypatch.setattr(module, part, instead)
    with running(TARGETS[name].needs) as address:
        target = TARGETS[name].make(address)
        assert any(is_broken(target, each) for each in corpus.read(name))


def is_broken(target: decoders.Target, each: bytes) -> bool:
    """Whether a target raises on an input."""
    try:
        target(each)
    except Exception:  # noqa: BLE001 - whatever notices it
        return True
    return False


def test_targets_that_were_tried_for_less_come_first_and_all_of_them_once_none_is_left(tmp_path: Path) -> None:
    progress = results.Progress(tmp_path / "progress.json", ["LICENSE"])
    tried = {"inputs": 7, "seconds": 60, "findings": [], "corpus": 1, "engine": "atheris"}
    for name in TARGETS:
        if name != "json":
            fuzz._add(progress, name, tried)
    assert fuzz._untried(progress, 60) == ["json"]
    fuzz._add(progress, "json", tried)
    assert fuzz._untried(progress, 60) == list(TARGETS)
    fuzz._add(progress, "json", tried)
    assert (progress.done["json"]["inputs"], progress.done["json"]["seconds"]) == (14, 120)


def test_the_error_of_an_input_is_found_in_what_the_fuzzer_prints() -> None:
    printed = " === Uncaught Python exception: ===\nAssertionError: 500\nTraceback (most recent call last):\n  File x\n"
    assert fuzz._ERROR.findall(printed)[0] == "AssertionError: 500"
    assert fuzz._EXECUTED.findall("INFO: seed\nstat::number_of_executed_units: 4711\n") == ["4711"]


def test_values_are_read_out_of_bytes_until_they_are_used_up() -> None:
    reader = Reader(b"\x02ab\x00\x05\xff\xff\xff\xffrest")
    assert (reader.text(), reader.number(2), reader.signed(), bool(reader)) == ("ab", 5, -1, True)
    assert (reader.rest(), reader.number(), reader.text(), reader.choice("xy"), bool(reader)) == (
        b"rest",
        0,
        "",
        "x",
        False,
    )


def test_inputs_are_kept_once_and_a_line_each(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "FOLDER", tmp_path)
    assert corpus.add("json", [b"bb", b"a"], [b"a", b"x" * (corpus.MOST_BYTES + 1)]) == 2
    assert corpus.read("json") == [b"a", b"bb"]
    assert (tmp_path / "json.txt").read_text() == "".join(
        f"{base64.b64encode(each).decode()}\n" for each in (b"a", b"bb")
    )
