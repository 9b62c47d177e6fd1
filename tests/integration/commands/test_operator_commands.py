"""Each command of operators does on a real acker what its page says, with the exit code that it promises."""

import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from acker_client._cli.main import run

from tests.support.receivers import Planned, Receiver, served
from tests.support.servers import AckerProcess, acker_serve
from tests.support.waiting import eventually_true

ROOT, OTHER, EDGE = "00c1000000000001", "00c1000000000002", "00000000000000e1"
OK, ERROR, USAGE = 0, 1, 2
ACKER = (sys.executable, "-c", "from acker_client._cli.main import main; main()")


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ended]


@pytest.fixture(scope="module")
def acker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AckerProcess]:
    folder = tmp_path_factory.mktemp("acker")
    options = ("--callback-allow-cidrs", "127.0.0.0/8", "--callback-schedule-s", "0.1")
    with acker_serve(folder, "--data-dir", str(folder / "data"), *options) as acker:
        yield acker


@pytest.fixture
def acker_command(acker: AckerProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line in this process."""
    monkeypatch.setenv("ACKER_URL", acker.url)

    def command(*arguments: str) -> Ended:
        capsys.readouterr()
        try:
            code = run(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
        captured = capsys.readouterr()
        return Ended(code=code, out=captured.out, err=captured.err)

    return command


@pytest.fixture
def http(acker: AckerProcess) -> Iterator[httpx.Client]:
    """Calls a topology that is new for each test."""
    address = "/v1/topologies/orders"
    acker.http.put(address, json={}).raise_for_status()
    with httpx.Client(base_url=f"{acker.url}{address}/") as http:
        yield http
    acker.http.delete(address, params={"force": "true", "discard": "true"}).raise_for_status()


def begin(http: httpx.Client, root: str, message: str, **more: Any) -> None:
    init = {"root_id": root, "spout_task": "shop", "message_id": message, "edges": [EDGE]} | more
    http.post("init", json=init).raise_for_status()


def ack(http: httpx.Client, root: str) -> None:
    http.post("ack", json={"root_id": root, "edge_id": EDGE, "component": "charge"}).raise_for_status()


def fail(http: httpx.Client, root: str, reason: str) -> None:
    http.post("fail", json={"root_id": root, "reason": reason, "component": "charge"}).raise_for_status()


def trace(http: httpx.Client, share: float) -> None:
    http.put(str(http.base_url).rstrip("/"), json={"trace": share}).raise_for_status()


def test_status_shows_the_store_the_processes_and_the_settings(acker_command: Run) -> None:
    shown = acker_command("status", "--settings")
    assert (shown.code, shown.err) == (OK, "")
    assert "ACKER_CALLBACK_SCHEDULE_S" in shown.out
    assert acker_command("status", "-o", "json").document["store"]["up"] is True


def test_topology_list_shows_each_with_its_counts(acker_command: Run, http: httpx.Client) -> None:
    begin(http, ROOT, "42")
    listed = {one["topology"]: one["pending"] for one in acker_command("topology", "list", "-o", "jsonl").lines}
    assert listed["orders"] == 1
    assert "orders" in acker_command("topology", "list").out


def test_top_shows_what_ends_a_second_as_often_as_it_is_told(acker_command: Run, http: httpx.Client) -> None:
    begin(http, ROOT, "42")
    read = acker_command("top", "--watch", "0.1", "--count", "2", "-o", "json")
    assert read.code == OK
    assert len(read.lines) == 2
    assert {one["topology"] for one in read.lines[1]["topologies"]} >= {"orders"}
    assert acker_command("top", "--watch", "0.1", "--count", "1").out.startswith("TOPOLOGY")


def test_spout_list_shows_the_spout_tasks(acker_command: Run, http: httpx.Client) -> None:
    begin(http, ROOT, "42")
    [task] = acker_command("spout", "list", "orders", "-o", "jsonl").lines
    assert (task["spout_task"], task["pending"]) == ("shop", 1)
    assert acker_command("spout", "list", "orders").out.splitlines()[1].startswith("shop")


def test_root_list_shows_those_that_fit(acker_command: Run, http: httpx.Client) -> None:
    begin(http, ROOT, "42")
    begin(http, OTHER, "43")

    def found(*options: str) -> list[str]:
        return [one["message_id"] for one in acker_command("root", "list", "orders", *options, "-o", "jsonl").lines]

    assert sorted(found()) == ["42", "43"]
    assert found("--message-id", "43") == ["43"]
    assert found("--older-than", "1h") == []
    assert found("--no-ack-for", "1h") == []
    assert acker_command("root", "list", "orders", "--older-than", "1h").out == "no root is pending that fits\n"
    cut = acker_command("root", "list", "orders", "--limit", "1")
    assert "--limit shows more" in cut.err


def test_root_shows_one_by_eight_digits(acker_command: Run, http: httpx.Client) -> None:
    begin(http, "abcdef0123456789", "42")
    assert acker_command("root", "show", "orders", "abcdef01", "-o", "json").document["message_id"] == "42"
    assert "outstanding" in acker_command("root", "show", "orders", "abcdef0123456789").out
    unknown = acker_command("root", "show", "orders", "abcdef02")
    assert (unknown.code, unknown.out) == (ERROR, "")
    assert "begins with abcdef02" in unknown.err
    assert acker_command("root", "show", "orders", "abc").code == USAGE


def test_eight_digits_of_two_roots_are_too_few(acker_command: Run, http: httpx.Client) -> None:
    begin(http, ROOT, "42")
    begin(http, OTHER, "43")
    both = acker_command("root", "show", "orders", "00c10000")
    assert both.code == ERROR
    assert all(root in both.err for root in (ROOT, OTHER))


def test_tree_shows_which_edge_of_a_traced_root_is_open(acker_command: Run, http: httpx.Client) -> None:
    trace(http, 1)
    header = acker_command("emit", "orders", "--message-id", "42", "--spout", "shop").out.strip()
    done, left = acker_command("ack", header, "--children", "2", "--component", "charge").out.splitlines()
    acker_command("ack", done, "--component", "pack")
    root_id, _, missing = left.split()[2].partition("-")
    [edge] = [
        one
        for one in acker_command("root", "tree", "orders", root_id[:8], "-o", "jsonl").lines
        if one["state"] == "open"
    ]
    assert (edge["edge_id"], edge["component"]) == (missing, "charge")
    shown = acker_command("root", "tree", "orders", root_id, "--open").out
    assert (missing in shown, done.partition("-")[2] in shown) == (True, False)


def test_tree_says_that_edges_are_missing_that_nobody_named(acker_command: Run, http: httpx.Client) -> None:
    trace(http, 1)
    init = {"root_id": ROOT, "spout_task": "shop", "ack_val": "0" * 15 + "3", "outstanding": 2}
    http.post("init", json=init).raise_for_status()
    shown = acker_command("root", "tree", "orders", ROOT)
    assert (shown.code, "named no edge" in shown.err) == (OK, True)


def test_tree_says_that_a_root_was_not_traced(acker_command: Run, http: httpx.Client) -> None:
    trace(http, 0)
    begin(http, ROOT, "42")
    shown = acker_command("root", "tree", "orders", ROOT)
    assert (shown.code, "outstanding" in shown.out, "was not traced" in shown.err) == (OK, True, True)


def test_fail_fails_several_roots_and_asks_before(acker_command: Run, http: httpx.Client) -> None:
    begin(http, ROOT, "42")
    begin(http, OTHER, "43")
    unasked = acker_command("root", "fail", "orders", ROOT)
    assert (unasked.code, "--yes" in unasked.err) == (USAGE, True)
    failed = acker_command("root", "fail", "orders", ROOT, OTHER, "--reason", "stuck", "--yes", "-o", "jsonl")
    assert (failed.code, [one["state"] for one in failed.lines]) == (OK, ["failed", "failed"])
    reasons = {one["reason"] for one in acker_command("failures", "orders", "-o", "jsonl").lines}
    assert reasons == {"forced: stuck"}
    assert acker_command("root", "fail", "orders", "00c1000000000009", "--yes").code == ERROR


def test_pending_roots_are_found_by_a_part_of_their_message_id(acker_command: Run, http: httpx.Client) -> None:
    for number in range(2):
        begin(http, f"00c300000000000{number}", f"invoice-{number}")
    [found] = acker_command("root", "list", "orders", "--text", "voice-1", "-o", "jsonl").lines
    assert found["message_id"] == "invoice-1"
    assert acker_command("root", "list", "orders", "--text", "receipt").out == "no root is pending that fits\n"


def test_failures_lists_and_groups_what_failed(acker_command: Run, http: httpx.Client) -> None:
    for number in range(3):
        begin(http, f"00c200000000000{number}", str(number))
        fail(http, f"00c200000000000{number}", "card refused")
    assert len(acker_command("failures", "orders", "--component", "charge", "-o", "jsonl").lines) == 3
    assert acker_command("failures", "orders", "--outcome", "timed_out").out == "no root failed that fits\n"
    for fits in (("--reason", "refused"), ("--text", "charge"), ("--since", "1h"), ("--until", "2999-01-01T00:00:00Z")):
        assert len(acker_command("failures", "orders", *fits, "-o", "jsonl").lines) == 3, fits
    for fits_none in (
        ("--reason", "charge"),
        ("--text", "no such text"),
        ("--until", "1h"),
        ("--since", "2999-01-01T00:00:00Z"),
    ):
        assert acker_command("failures", "orders", *fits_none).out == "no root failed that fits\n", fits_none
    grouped = acker_command("failures", "orders", "--group").out.splitlines()[1]
    assert grouped.split() == ["3", "failed", "charge", "card", "refused"]
    counted = [{"count": 3, "outcome": "failed", "component": "charge", "reason": "card refused"}]
    assert json.loads(acker_command("failures", "orders", "--group", "-o", "json").out) == {"groups": counted}


def test_completions_shows_what_is_unread_and_releases_nothing(acker_command: Run, http: httpx.Client) -> None:
    begin(http, ROOT, "42")
    ack(http, ROOT)
    for _ in range(2):
        [done] = acker_command("completions", "orders", "shop", "-o", "jsonl").lines
        assert (done["message_id"], done["outcome"]) == ("42", "acked")
    assert http.get("spouts/shop").json()["last_read_at_ms"] is None


def test_lists_say_that_they_were_cut(acker_command: Run, http: httpx.Client) -> None:
    for number in range(3):
        begin(http, f"00c200000000000{number}", str(number))
        acker_command("root", "fail", "orders", f"00c200000000000{number}", "--yes")
    for command in (("completions", "orders", "shop"), ("audit",), ("failures", "orders")):
        assert "there may be more than these 2: --limit shows more" in acker_command(*command, "--limit", "2").err


def test_a_root_that_is_not_remembered_may_be_found_elsewhere(acker_command: Run, http: httpx.Client) -> None:
    begin(http, OTHER, "43")
    unknown = acker_command("root", "show", "orders", ROOT)
    assert unknown.code == ERROR
    assert f"acker root find {ROOT} looks among failures, unread completions and dead letters" in unknown.err


def test_a_topology_that_is_misspelt_is_suggested(acker_command: Run, http: httpx.Client) -> None:
    begin(http, ROOT, "42")
    misspelt, unlike = acker_command("failures", "oders"), acker_command("failures", "xyzzy")
    assert (misspelt.code, unlike.code) == (ERROR, ERROR)
    assert "there is no topology oders" in misspelt.err
    assert misspelt.err.endswith("did you mean orders?\n")
    assert "did you mean" not in unlike.err


def test_completions_follows_until_it_is_interrupted(acker: AckerProcess, http: httpx.Client) -> None:
    begin(http, ROOT, "42")
    ack(http, ROOT)
    arguments = ("completions", "orders", "shop", "--follow", "-o", "jsonl", "--acker", acker.url)
    command = [*ACKER, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["message_id"] == "42"
        begin(http, OTHER, "43")
        ack(http, OTHER)
        assert json.loads(following.stdout.readline())["message_id"] == "43"
        following.send_signal(2)
        assert following.wait(20) == 130


def test_find_tells_where_a_message_is_over_all_topologies(acker_command: Run, http: httpx.Client) -> None:
    begin(http, ROOT, "order-42")
    ack_later = acker_command("root", "find", "order-42", "-o", "jsonl")
    assert [(one["topology"], one["found_in"], one["state"]) for one in ack_later.lines] == [
        ("orders", "roots", "pending")
    ]
    fail(http, ROOT, "card refused")
    found = {one["found_in"]: one for one in acker_command("root", "find", "order-42", "-o", "jsonl").lines}
    assert found.keys() == {"failures", "completions"}
    assert (found["failures"]["last_component"], found["failures"]["spout_task"]) == ("charge", "shop")
    assert [one["root_id"] for one in acker_command("root", "find", "00c10000", "-o", "jsonl").lines] == [ROOT, ROOT]


def test_find_says_that_acked_roots_are_not_found(acker_command: Run, http: httpx.Client) -> None:
    begin(http, ROOT, "order-42")
    ack(http, ROOT)
    page = http.get("spouts/shop/completions").json()
    http.post("spouts/shop/completions/release", json={"cursor": page["cursor"]}).raise_for_status()
    nothing = acker_command("root", "find", "order-42")
    assert (nothing.code, nothing.out) == (ERROR, "")
    assert "An acked root whose completion was released is not kept" in nothing.err


def test_dead_letters_are_listed_replayed_and_discarded_by_error_and_time(
    acker_command: Run, http: httpx.Client
) -> None:
    receiver = Receiver()
    receiver.plan.extend([Planned(status=503)] * 1_000)
    with served(receiver) as port:
        set_up = acker_command("webhook", "set", "orders", "shop", f"http://127.0.0.1:{port}/")
        assert (set_up.code, "whsec_" in set_up.out) == (OK, True)
        begin(http, ROOT, "42")
        ack(http, ROOT)
        eventually_true(lambda: http.get("spouts/shop").json()["dead_letters"] == 1)
    listed = ("dead-letters", "list", "orders", "shop", "-o", "jsonl")
    [letter] = acker_command(*listed, "--error", "503", "--since", "1h").lines
    assert (letter["root_id"], "503" in letter["error"]) == (ROOT, True)
    assert acker_command(*listed, "--error", "refused").lines == []
    assert acker_command(*listed, "--until", "1h").lines == []
    assert acker_command("webhook", "pause", "orders", "shop").code == OK
    discard, replay = (("dead-letters", verb, "orders", "shop") for verb in ("discard", "replay"))
    assert acker_command(*discard, "--error", "refused", "--yes").out == "0 discarded\n"
    assert acker_command(*discard).code == USAGE
    assert acker_command(*replay, "--error", "503", "-o", "json").document == {"replayed": 1}
    assert acker_command("dead-letters", "list", "orders", "shop").out == "no dead letter fits\n"


def test_a_webhook_is_set_tested_paused_resumed_rotated_and_removed(acker_command: Run, http: httpx.Client) -> None:
    receiver = Receiver()
    task = ("orders", "shop")
    assert http.put("spouts/shop", json={}).is_success
    assert acker_command("webhook", "show", *task).out == "none: readers pull completions\n"
    assert acker_command("webhook", "set", *task).code == USAGE
    with served(receiver) as port:
        acker_command("webhook", "set", *task, f"http://127.0.0.1:{port}/")
        assert acker_command("webhook", "show", *task, "-o", "json").document["state"] == "on"
        good = acker_command("webhook", "test", *task)
        assert (good.code, good.out.startswith("delivered, status 200")) == (OK, True)
        receiver.plan.append(Planned(status=500))
        bad = acker_command("webhook", "test", *task)
        assert (bad.code, bad.out.startswith("not delivered")) == (ERROR, True)
    assert acker_command("webhook", "pause", *task, "-o", "json").document == {"state": "paused"}
    assert "paused" in acker_command("webhook", "show", *task).out
    assert acker_command("webhook", "resume", *task, "-o", "json").document == {"state": "on"}
    assert acker_command("webhook", "rotate", *task, "-o", "json").document["secret"].startswith("whsec_")
    assert acker_command("spout", "set", *task, "--callback", "none", "-o", "json").document["callback"] is None
    assert acker_command("webhook", "show", *task).out == "none: readers pull completions\n"


def test_a_topology_is_created_shown_set_and_deleted(acker_command: Run, acker: AckerProcess) -> None:
    name = "returns"
    created = acker_command(
        "topology", "create", name, "--ackers", "2", "--message-timeout", "2m", "-o", "json"
    ).document
    assert (created["ackers"], created["message_timeout_ms"], created["dedupe_automatic"]) == (2, 120_000, True)
    options = (
        "--max-spout-pending",
        "7",
        "--dedupe-window",
        "5m",
        "--root-details",
        "off",
        "--trace",
        "0.5",
        "--end-on",
        "all_ended",
        "--grace",
        "1m",
    )
    changed = acker_command("topology", "set", name, *options, "-o", "json").document
    assert (changed["max_spout_pending"], changed["dedupe_window_ms"], changed["dedupe_automatic"]) == (
        7,
        300_000,
        False,
    )
    assert (changed["root_details"], changed["trace"], changed["message_timeout_ms"]) == (False, 0.5, 120_000)
    assert (changed["end_on"], changed["grace_ms"]) == ("all_ended", 60_000)
    undone = acker_command(
        *("topology", "set", name, "--max-spout-pending", "0", "--dedupe-window", "automatic", "-o", "json")
    ).document
    assert (undone["max_spout_pending"], undone["dedupe_automatic"]) == (None, True)
    assert acker_command("topology", "create", name, "-o", "json").document == undone
    shown = dict(line.split(maxsplit=1) for line in acker_command("topology", "show", name).out.splitlines())
    assert (shown["message_timeout"], shown["max_spout_pending"], shown["timed_out"]) == ("120 s", "-", "0")
    assert acker_command("topology", "delete", name).out == f"{name} is deleted\n"
    assert acker_command("topology", "show", name).code == ERROR
    assert name not in acker_command("topology", "list").out


def test_a_topology_that_is_not_there_is_not_set(acker_command: Run, acker: AckerProcess, http: httpx.Client) -> None:
    misspelt = acker_command("topology", "set", "oders", "--message-timeout", "1m")
    assert (misspelt.code, misspelt.err.endswith("did you mean orders?\n")) == (ERROR, True)
    nothing = acker_command("topology", "set", "orders")
    assert (nothing.code, "nothing to set" in nothing.err) == (USAGE, True)
    assert "oders" not in acker_command("topology", "list").out


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--message-timeout", "soon", "is no length of time"),
        ("--root-details", "maybe", "is neither on nor off"),
        ("--trace", "half", "is no number from 0 to 1"),
        ("--trace", "2", "trace must be a number from 0 to 1"),
        ("--max-spout-pending", "-1", "is no number of 0 or more"),
        ("--message-timeout", "30d", "message_timeout_ms must be an integer from 100"),
        ("--dedupe-window", "1s", "dedupe_window_ms must be 0 or at least message_timeout_ms"),
    ],
)
def test_a_setting_that_is_wrong_changes_nothing(
    acker_command: Run, http: httpx.Client, option: str, value: str, says: str
) -> None:
    before = acker_command("topology", "show", "orders", "-o", "json").document
    wrong = acker_command("topology", "set", "orders", option, value)
    assert (wrong.code in (ERROR, USAGE), wrong.out) == (True, "")
    assert says in wrong.err
    assert acker_command("topology", "show", "orders", "-o", "json").document == before


def test_a_topology_in_use_is_deleted_by_force_and_asks_before(acker_command: Run, http: httpx.Client) -> None:
    begin(http, ROOT, "42")
    busy = acker_command("topology", "delete", "orders")
    assert (busy.code, "busy" in busy.err or "pending" in busy.err) == (ERROR, True)
    assert acker_command("topology", "delete", "orders", "--discard").code == USAGE
    unasked = acker_command("topology", "delete", "orders", "--force")
    assert (unasked.code, "--yes" in unasked.err) == (USAGE, True)
    forced = acker_command("topology", "delete", "orders", "--force", "--yes")
    assert (forced.code, forced.out) == (OK, "orders is deleted once its completions are read\n")
    assert http.get("spouts/shop/completions").json()["completions"][0]["outcome"] == "failed"
    gone = acker_command("topology", "delete", "orders", "--force", "--discard", "--yes", "-o", "json")
    assert gone.document == {"topology": "orders", "deleted": True}
    acker_command("topology", "create", "orders")


def test_a_spout_task_is_set_shown_and_deleted(acker_command: Run, http: httpx.Client) -> None:
    task = ("orders", "shop")
    assert acker_command("spout", "set", *task).code == USAGE
    made = acker_command("spout", "set", *task, "--ephemeral", "on", "-o", "json").document
    assert (made["ephemeral"], made["callback"]) == (True, None)
    refused = acker_command("spout", "set", *task, "--callback", "pubsub")
    assert (refused.code, "--store-port" in refused.err) == (ERROR, True)
    begin(http, ROOT, "42")
    assert acker_command("spout", "show", *task, "-o", "json").document["pending"] == 1
    assert "last_emit_at_ms" in acker_command("spout", "show", *task).out
    assert acker_command("spout", "delete", *task).code == ERROR
    unasked = acker_command("spout", "delete", *task, "--discard")
    assert (unasked.code, "--yes" in unasked.err) == (USAGE, True)
    assert acker_command("spout", "delete", *task, "--discard", "--yes").out == "orders/shop is deleted\n"
    assert acker_command("spout", "show", *task).code == ERROR


def test_emit_ack_and_join_need_no_ids(acker_command: Run, http: httpx.Client) -> None:
    header = acker_command("emit", "orders", "--message-id", "42", "--spout", "shop").out.strip()
    assert acker_command("join", header).code == 12
    acked = acker_command("ack", header, "--children", "2")
    assert (acked.code, "pending" in acked.err) == (OK, True)
    first, second = acked.out.splitlines()
    assert "pending" in acker_command("ack", first).err
    assert "acked" in acker_command("ack", second).err
    joined = acker_command("join", header)
    assert (joined.code, joined.out) == (OK, "acked\n")


def test_roundtrip_takes_messages_through_and_leaves_nothing(acker_command: Run, http: httpx.Client) -> None:
    rounds = acker_command("roundtrip", "orders", "--rounds", "2", "-o", "jsonl")
    assert (rounds.code, len(rounds.lines)) == (OK, 2)
    assert all(one["total_ms"] > 0 for one in rounds.lines)
    assert http.get("spouts").json() == {"spouts": []}


def test_audit_lists_what_was_forced(acker_command: Run, http: httpx.Client) -> None:
    begin(http, ROOT, "42")
    acker_command("root", "fail", "orders", ROOT, "--yes")
    newest = acker_command("audit", "--limit", "1", "-o", "jsonl").lines[0]
    assert (newest["act"], newest["root_id"]) == ("root_failed", ROOT)
    assert "root_failed" in acker_command("audit").out


def test_history_shows_points_of_a_topology(acker_command: Run, http: httpx.Client) -> None:
    shown = acker_command("history", "orders", "--window", "3h", "-o", "json")
    assert (shown.code, shown.err) == (OK, "")
    assert "points" in shown.document
    assert acker_command("history", "orders").code == OK


def test_what_no_acker_answers_is_an_error_with_advice(acker_command: Run) -> None:
    away = acker_command("topology", "list", "--acker", "http://127.0.0.1:1")
    assert (away.code, away.out) == (ERROR, "")
    assert "no acker answers at http://127.0.0.1:1" in away.err
    assert acker_command("topology", "list", "--acker", "ftp://127.0.0.1").code == USAGE
    assert acker_command("spout", "list", "nowhere").code == ERROR
    assert acker_command("spout", "list").code == USAGE


def test_bash_completes_commands_options_topologies_and_spout_tasks(
    acker: AckerProcess, http: httpx.Client, tmp_path: Path
) -> None:
    begin(http, ROOT, "42")
    (tmp_path / "acker").write_text(f'#!/bin/sh\nexec {shlex.join(ACKER)} "$@"\n')
    (tmp_path / "acker").chmod(0o755)

    def completed(*words: str) -> list[str]:
        typed = " ".join(f"'{word}'" for word in ("acker", *words))
        script = (
            f'export PATH="{tmp_path}:$PATH" ACKER_URL={acker.url}; eval "$(acker shell-completion bash)"; '
            f"COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _acker; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        )
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.split()

    assert completed("comp") == ["completions"]
    assert completed("root", "") == ["find", "show", "list", "tree", "fail"]
    assert completed("dead-letters", "re") == ["replay"]
    assert "--component" in completed("failures", "orders", "--comp")
    assert "--older-than" in completed("root", "list", "orders", "--older")
    assert completed("root", "list", "ord") == ["orders"]
    assert completed("webhook", "show", "orders", "s") == ["shop"]


FORGED = "one\nacker: two\r\x1b[2K\x9b31m\u202ethree\u2028four\x00\x7f"
"""A text that would begin lines of its own, move the cursor, colour what follows and turn the direction of writing."""


def assert_harmless(shown: Ended) -> None:
    """Nothing that was printed is more than text and ends of lines; no line was begun by a text of others."""
    printed = (shown.out + shown.err).replace("\n", "")
    assert [character for character in printed if not character.isprintable()] == []
    assert not any(line.startswith("acker: two") for line in shown.err.splitlines())


SHOWING = {
    "join": ("join", f"00 orders {ROOT}-{EDGE}"),
    "join of an open root": ("join", f"00 orders {OTHER}-{EDGE}"),
    "failures": ("failures", "orders"),
    "roots": ("root", "list", "orders"),
    "root": ("root", "show", "orders", ROOT),
    "an open root": ("root", "show", "orders", OTHER),
    "tree": ("root", "tree", "orders", OTHER),
    "find": ("root", "find", ROOT),
    "find a message": ("root", "find", FORGED.replace("\x00", "")),
    "completions": ("completions", "orders", "shop"),
    "an unknown topology": ("root", "list", FORGED.replace("\x00", "")),
    "an unknown option": ("status", FORGED.replace("\x00", "")),
    "an address": ("status", "--acker", f"http://127.0.0.1:1/{FORGED}"),
    "a header": ("ack", FORGED.replace("\x00", "")),
    "doctor": ("doctor",),
}


@pytest.mark.parametrize("form", [[], ["-o", "json"], ["-o", "jsonl"]], ids=["table", "json", "jsonl"])
@pytest.mark.parametrize("arguments", SHOWING.values(), ids=SHOWING)
def test_a_text_of_others_is_printed_within_its_line(
    acker_command: Run, http: httpx.Client, arguments: tuple[str, ...], form: list[str]
) -> None:
    begin(http, OTHER, FORGED, trace=True)
    begin(http, ROOT, FORGED)
    fail(http, ROOT, FORGED)
    takes_a_form = arguments[0] not in ("join", "ack")
    shown = acker_command(*arguments, *(form if takes_a_form else []))
    assert shown.out or shown.err or arguments == ("doctor",)
    assert_harmless(shown)


def test_a_program_reads_a_text_as_it_was(acker_command: Run, http: httpx.Client) -> None:
    begin(http, ROOT, FORGED)
    fail(http, ROOT, FORGED)
    [failure] = acker_command("failures", "orders", "-o", "jsonl").lines
    assert (failure["reason"], failure["message_id"]) == (FORGED, FORGED)


class Answering(BaseHTTPRequestHandler):
    """Answers every request with a problem whose words are forged."""

    def do_GET(self) -> None:
        status = FORGED if self.path == "/readyz" else 409
        problem = {"title": FORGED, "status": status, "detail": FORGED, "code": "conflict", "retryable": False}
        body = json.dumps(problem).encode()
        self.send_response(409)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - a name of the standard library

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.mark.parametrize(
    "arguments",
    [
        (
            "topology",
            "list",
        ),
        ("status",),
        ("health",),
        ("root", "fail", "orders", ROOT, "--yes"),
        ("join", f"00 orders {ROOT}-{EDGE}"),
        ("emit", "--message-id", "1"),
        ("run", "--component", "c", "--", "true"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_words_of_a_server_are_printed_within_their_line(
    acker_command: Run, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        monkeypatch.setenv("ACKER_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("ACKER_ANCHORS", f"00 orders {ROOT}-{EDGE}")
        shown = acker_command(*arguments)
        server.shutdown()
    assert shown.code
    assert "four" in shown.out + shown.err
    assert_harmless(shown)
