"""Tests what a key allows, and the file of keys."""

import asyncio
import hmac
import json
import os
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from acker_protocol.errors import Forbidden, Unauthorized
from acker_service import file_changes
from acker_service.__main__ import cli
from acker_service.background import cancel_and_wait
from acker_service.http import keys
from acker_service.http.keys import (
    ANONYMOUS_ADMIN,
    Key,
    KeysFile,
    Rate,
    Scope,
    authenticate,
    authorize,
    configured_keys,
    digest_of,
    entry,
    parse_keys,
)
from acker_service.settings import read_settings
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

ORDERS_KEY = Key(name="orders", digest=digest_of("one"), scope=Scope.SPOUT, topologies=frozenset({"orders"}))
WATCHER_KEY = Key(name="watcher", digest=digest_of("two"), scope=Scope.ADMIN)
KEYS = (ORDERS_KEY, WATCHER_KEY)


@pytest.mark.parametrize(
    ("scope", "covered"), [("ack", {"ack"}), ("spout", {"ack", "spout"}), ("admin", {"ack", "spout", "admin"})]
)
def test_a_scope_covers_those_before_it(scope, covered):
    assert {need for need in Scope if Scope(scope).includes(need)} == covered


@pytest.mark.parametrize(("secret", "key"), [("one", ORDERS_KEY), ("two", WATCHER_KEY)])
def test_a_key_is_known_by_its_hash(secret, key):
    assert authenticate(KEYS, secret) is key


@pytest.mark.parametrize("secret", ["three", "", None, "One", "one ", digest_of("one").hex()])
def test_anything_else_is_unauthorized(secret):
    with pytest.raises(Unauthorized):
        authenticate(KEYS, secret)


@pytest.mark.parametrize("secret", ["one", None])
def test_a_file_without_keys_lets_nobody_in(secret):
    with pytest.raises(Unauthorized):
        authenticate((), secret)


@pytest.mark.parametrize("secret", ["one", "", None])
def test_without_a_file_of_keys_anybody_may_do_anything(secret):
    assert authenticate(None, secret) is ANONYMOUS_ADMIN
    authorize(ANONYMOUS_ADMIN, Scope.ADMIN, "orders")


def test_every_key_is_compared_in_constant_time(monkeypatch):
    compared: list[bytes] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(one)
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert authenticate(KEYS, "one") is ORDERS_KEY
    assert compared == [ORDERS_KEY.digest, WATCHER_KEY.digest]


def test_what_is_remembered_of_a_key_is_its_sha_256():
    assert digest_of("abc").hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_a_digest_is_not_shown():
    assert "digest" not in repr(ORDERS_KEY)


@pytest.mark.parametrize("need", [Scope.ACK, Scope.SPOUT])
def test_a_key_may_do_what_its_scope_covers_on_its_topologies(need):
    authorize(ORDERS_KEY, need, "orders")
    authorize(ORDERS_KEY, need, None)


@pytest.mark.parametrize(
    ("need", "topology"), [(Scope.ADMIN, "orders"), (Scope.ADMIN, None), (Scope.ACK, "payments"), (Scope.ACK, "order")]
)
def test_a_key_may_do_nothing_beyond(need, topology):
    with pytest.raises(Forbidden):
        authorize(ORDERS_KEY, need, topology)


def test_a_key_for_all_topologies_sees_each():
    assert WATCHER_KEY.allows("orders")
    assert WATCHER_KEY.allows("payments")
    assert not ORDERS_KEY.allows("payments")


ORDERS = {
    "name": "orders",
    "sha256": digest_of("one").hex(),
    "scope": "spout",
    "topologies": ["orders", "returns"],
}
WATCHER = {"name": "watcher", "sha256": digest_of("two").hex(), "scope": "admin", "topologies": "*"}


def text(*entries: Any, **more: Any) -> bytes:
    return json.dumps({"keys": entries, **more}).encode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_bytes(text(ORDERS))
    return path


def write(path: Path, content: bytes) -> None:
    """Replace the file at once, as an editor or a cluster does."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.replace(path)


def test_keys_are_read_with_scope_and_topologies():
    orders, watcher = parse_keys(text(ORDERS, WATCHER))
    assert (orders.name, orders.digest, orders.scope) == ("orders", digest_of("one"), Scope.SPOUT)
    assert orders.topologies == {"orders", "returns"}
    assert (watcher.scope, watcher.topologies) == (Scope.ADMIN, None)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"requests": 100, "operations": 2_000.5}, Rate(requests=100, operations=2_000.5)),
        ({"requests": 0.1}, Rate(requests=0.1)),
        ({"operations": 1}, Rate(operations=1)),
        (None, None),
    ],
)
def test_a_key_may_have_a_rate(written, read):
    [orders, watcher] = parse_keys(text(ORDERS | {"rate": written}, WATCHER))
    assert (orders.rate, watcher.rate) == (read, None)


def test_a_file_may_hold_no_key_and_then_lets_nobody_in():
    assert parse_keys(text()) == ()


def test_a_hash_may_be_written_in_capitals():
    [key] = parse_keys(text(ORDERS | {"sha256": digest_of("one").hex().upper()}))
    assert key.digest == digest_of("one")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "Invalid JSON"),
        (b'{"keys": [', "Invalid JSON"),
        (b"[]", "object"),
        (b"{}", "keys: Field required"),
        (text(ORDERS, version=2), "version: Extra inputs"),
        (text(ORDERS | {"key": "one"}), "keys.0.key: Extra inputs"),
        (text(ORDERS | {"scope": "root"}), "keys.0.scope: Input should be 'ack', 'spout' or 'admin'"),
        (text(WATCHER, ORDERS | {"sha256": "one"}), "keys.1.sha256"),
        *(
            (
                text(ORDERS | {"topologies": no_list}),
                'keys.0.topologies: Input should be "*" for all topologies, or a list',
            )
            for no_list in ([], "orders", "", None, True, {"*": 1})
        ),
        *(
            (
                text(ORDERS | {"topologies": of_all}),
                'keys.0.topologies: "*" is for all topologies: write "topologies": "*"',
            )
            for of_all in (["*"], ["*", "orders"], ["orders", "*"])
        ),
        *(
            (text(ORDERS | {"topologies": ["orders", no_name]}), "keys.0.topologies: Entry 1 is no name of a topology")
            for no_name in ("ord*", "", 7, None, ["*"], "not a name", "n" * 129, "a\n")
        ),
        *(
            (text(ORDERS | {"rate": wrong}), f"keys.0.rate{said}")
            for wrong, said in (
                ({}, ': Input should name "requests" or "operations" a second, or both'),
                ({"requests": None}, ': Input should name "requests" or "operations" a second, or both'),
                ({"requests": 0}, ".requests: Input should be greater than 0"),
                ({"operations": -1}, ".operations: Input should be greater than 0"),
                ({"operations": 1e10}, ".operations: Input should be less than or equal to 1000000000"),
                ({"requests": "10"}, ".requests: Input should be a valid number"),
                ({"requests": True}, ".requests: Input should be a valid number"),
                ({"requests": float("nan")}, ".requests: Input should be a finite number"),
                ({"requests": 1, "bytes": 1}, ".bytes: Extra inputs are not permitted"),
                (10, ": Input should be an object"),
                ([10], ": Input should be an object"),
            )
        ),
        (b"\xef\xbb\xbf" + text(ORDERS), "it begins with the byte-order mark of UTF-8: save it as UTF-8 without one"),
        *(
            (text(ORDERS).decode().encode(encoding), f"it begins with the byte-order mark of {encoding.upper()}: save")
            for encoding in ("utf-16", "utf-32")
        ),
        (b"\xfe\xff" + text(ORDERS).decode().encode("utf-16-be"), "mark of UTF-16, big-endian: save it as UTF-8"),
        (text(ORDERS | {"name": "not a name"}), "keys.0.name"),
        (text({"name": "orders"}), "keys.0.sha256: Field required"),
        (text(ORDERS, WATCHER | {"name": "orders"}), "keys.1.name: keys.0 has the same name"),
        (
            text(ORDERS, WATCHER | {"sha256": ORDERS["sha256"]}),
            "keys.1.sha256: keys.0 has the same sha256",
        ),
    ],
)
def test_whatever_is_wrong_is_told(content, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        parse_keys(content)


def test_all_faults_are_told_at_once():
    with pytest.raises(ValueError, match=r"keys\.0\.scope: .*; keys\.1\.topologies: ") as refusal:
        parse_keys(text(ORDERS | {"scope": "x"}, {name: WATCHER[name] for name in ("name", "sha256", "scope")}))
    assert "\n" not in str(refusal.value)


def test_a_key_written_into_the_file_by_mistake_is_not_told():
    with pytest.raises(ValueError, match="sha256") as refusal:
        parse_keys(text(ORDERS | {"sha256": "acker_secret", "key": "acker_secret"}))
    assert "acker_secret" not in str(refusal.value)


HASH = digest_of("one").hex()
SECRET = "acker_Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6"
PIECE = 8
"""So many characters of a hash or a key in a row are too many to be shown."""


def shows_any(told: str, *secrets: str) -> bool:
    pieces = {secret[at : at + PIECE] for secret in secrets for at in range(len(secret) - PIECE + 1)}
    return any(piece in told for piece in pieces)


@pytest.mark.parametrize(
    "broken",
    [
        text(ORDERS | {f"sha256: {HASH}": ""}),
        text(ORDERS | {HASH: ""}),
        text(ORDERS | {HASH.upper(): ""}),
        text(ORDERS | {HASH[:20]: ""}),
        text(ORDERS | {f'sha256": "{HASH}': "", "scope": "x"}),
        text(ORDERS, **{HASH: []}),
        text(ORDERS | {SECRET: ""}),
        text({HASH: ORDERS}),
        text(HASH),
        text(ORDERS | {"topologies": {HASH: HASH}}),
        text(ORDERS | {"topologies": [HASH, f"{HASH} "]}),
        text(ORDERS | {"name": HASH}, WATCHER | {"name": HASH}),
        text(ORDERS | {"name": HASH}, WATCHER | {"sha256": HASH}),
        text(ORDERS | {"name": f"a {HASH}", "scope": HASH}),
        text(ORDERS)[:-1] + b', "' + HASH.encode(),
    ],
)
def test_what_is_wrong_never_shows_a_hash_or_a_key_wherever_broken_json_has_put_it(broken):
    with pytest.raises(ValueError, match=r"\S") as refusal:
        parse_keys(broken)
    assert not shows_any(str(refusal.value), HASH, HASH.upper(), SECRET)


TOKEN = re.compile(r'"[^"]*"|[{}:,\[\]]')
TWO_KEYS = text(ORDERS | {"name": "a"}, WATCHER).decode()
TOKENS = TOKEN.findall(TWO_KEYS)
"""A file of two keys: its strings, and what stands between them."""


def refusal_of(content: str) -> str:
    """What is said of the text of a file; nothing if it can be read."""
    try:
        parse_keys(content.encode())
    except ValueError as refusal:
        return str(refusal)
    return ""


def swapped(tokens: list[str], one: int, other: int) -> list[str]:
    moved = [*tokens]
    moved[one], moved[other] = tokens[other], tokens[one]
    return moved


def test_no_swap_of_two_strings_makes_an_error_show_a_hash():
    """So each hash stands once where each name of a field should, and the JSON is valid."""
    strings = [place for place, token in enumerate(TOKENS) if token.startswith('"')]
    told = [refusal_of("".join(swapped(TOKENS, *pair))) for pair in combinations(strings, 2)]
    assert any("(a name that is not shown)" in refusal for refusal in told)
    assert not any(shows_any(refusal, HASH, digest_of("two").hex()) for refusal in told)


@given(st.data())
def test_no_change_of_some_characters_makes_an_error_show_a_hash(data):
    """Of tokens first: a change of characters alone hardly ever leaves JSON that can be read up to a hash."""
    tokens, places = TOKENS, st.integers(0, len(TOKENS) - 1)
    for _ in range(data.draw(st.integers(0, 2))):
        tokens = swapped(tokens, data.draw(places), data.draw(places))
    whole = "".join(tokens)
    for _ in range(data.draw(st.integers(0, 2))):
        at, length = data.draw(st.integers(0, len(whole))), data.draw(st.integers(0, 12))
        put = data.draw(st.sampled_from(["", '"', ",", ":", "{", "}", "[", '", "', '": "']))
        whole = whole[:at] + put + whole[at + length :]
    assert not shows_any(refusal_of(whole), HASH, digest_of("two").hex())


def test_a_fault_names_the_file(path: Path):
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=str(path)):
        configured_keys(path)


def test_a_file_that_is_missing_is_a_fault(tmp_path: Path):
    with pytest.raises(ValueError, match=r"missing\.json: No such file"):
        configured_keys(tmp_path / "missing.json")


def test_no_file_is_no_keys():
    assert configured_keys(None) is None


class TestChanges:
    def test_a_file_that_stays_is_not_read_again(self, path: Path):
        file, taken = KeysFile(path), []
        file.read()
        file.reload_if_changed(taken.append)
        assert taken == []

    def test_a_file_that_changed_is_read_again(self, path: Path):
        file, taken = KeysFile(path), []
        file.read()
        write(path, text(WATCHER))
        file.reload_if_changed(taken.append)
        file.reload_if_changed(taken.append)
        assert [key.name for [key] in taken] == ["watcher"]

    def test_a_file_changed_in_place_is_read_again(self, path: Path):
        file, taken = KeysFile(path), []
        file.read()
        path.write_bytes(text(ORDERS | {"scope": "admin"}))
        os.utime(path, ns=(0, 0))
        file.reload_if_changed(taken.append)
        assert [key.scope for [key] in taken] == ["admin"]

    @pytest.mark.parametrize("content", [b"{", None])
    def test_one_that_cannot_be_read_changes_nothing_and_is_told_once(self, path: Path, caplog, content):
        file, taken = KeysFile(path), []
        file.read()
        path.unlink() if content is None else write(path, content)
        file.reload_if_changed(taken.append)
        file.reload_if_changed(taken.append)
        assert taken == []
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        assert not file.is_valid
        assert str(path) in str(file.error)
        write(path, text(WATCHER))
        file.reload_if_changed(taken.append)
        assert len(taken) == 1
        assert (file.is_valid, file.error) == (True, None)

    def test_the_time_of_a_reading_stays_where_a_later_one_fails(self, path: Path, monkeypatch):
        file = KeysFile(path)
        assert file.loaded_at_ms is None
        monkeypatch.setattr(keys.time, "time", lambda: 1_790_000_000.5)
        file.read()
        monkeypatch.setattr(keys.time, "time", lambda: 1_790_000_007.5)
        write(path, b"{")
        file.reload_if_changed(lambda _: None)
        assert file.loaded_at_ms == 1_790_000_000_500
        write(path, text(WATCHER))
        file.reload_if_changed(lambda _: None)
        assert file.loaded_at_ms == 1_790_000_007_500

    @pytest.mark.anyio
    async def test_a_watched_file_is_read_again_whenever_it_changes(self, path: Path, monkeypatch):
        monkeypatch.setattr(file_changes, "CHECK_INTERVAL_S", 0.01)
        file, installed = KeysFile(path), asyncio.Queue[keys.Keys]()
        file.read()
        watching = asyncio.create_task(file.watch(installed.put_nowait))
        for entries in (WATCHER, ORDERS):
            write(path, text(entries))
            assert await installed.get() == parse_keys(text(entries))
        await cancel_and_wait(watching)


class TestMaking:
    def make(self, *arguments: str) -> Any:
        return CliRunner().invoke(cli, ["key", "make", *arguments])

    def test_a_key_is_printed_with_the_entry_that_lets_it_in(self):
        made = self.make("--name", "orders", "--scope", "spout", "--topology", "orders", "--topology", "returns")
        secret, line = made.stdout.splitlines()
        key = authenticate(parse_keys(b'{"keys": [%s]}' % line.encode()), secret)
        assert (key.name, key.scope, key.topologies) == ("orders", "spout", {"orders", "returns"})
        assert secret not in line

    def test_a_key_is_for_all_topologies_unless_some_are_named(self):
        made = self.make("--name", "watcher", "--scope", "admin")
        assert json.loads(made.stdout.splitlines()[1])["topologies"] == "*"

    def test_a_rate_is_made_with_it(self):
        made = self.make("--name", "a", "--scope", "ack", "--requests-per-s", "10", "--operations-per-s", "0.5")
        assert json.loads(made.stdout.splitlines()[1])["rate"] == {"requests": 10, "operations": 0.5}
        [key] = parse_keys(b'{"keys": [%s]}' % made.stdout.splitlines()[1].encode())
        assert key.rate == Rate(requests=10, operations=0.5)

    def test_a_key_is_256_random_bits(self):
        secrets = {self.make("--name", "a", "--scope", "ack").stdout.splitlines()[0] for _ in range(5)}
        assert len(secrets) == 5
        assert {len(secret) for secret in secrets} == {len("acker_") + 43}

    @pytest.mark.parametrize(
        "arguments",
        [
            ("a", "root"),
            ("a b", "ack"),
            ("a", "ack", "--topology", "*"),
            ("a", "ack", "--topology", ""),
            ("a", "ack", "--requests-per-s", "0"),
        ],
    )
    def test_what_the_file_would_refuse_is_not_made(self, arguments):
        name, scope, *more = arguments
        made = self.make("--name", name, "--scope", scope, *more)
        assert (made.exit_code, made.stdout) == (2, "")

    def test_an_entry_holds_the_hash(self):
        assert json.loads(entry("a", "one", scope="ack", topologies=[]))["sha256"] == digest_of("one").hex()


class TestSettings:
    def test_without_keys_only_this_machine_is_served(self):
        with pytest.raises(ValueError, match="ACKER_KEYS_FILE"):
            read_settings(host="0.0.0.0")

    @pytest.mark.parametrize("options", [{"keys_file": "keys.json"}, {"open": True}])
    def test_with_keys_or_if_told_so_others_are_served(self, options):
        assert read_settings(host="0.0.0.0", **options).host == "0.0.0.0"
