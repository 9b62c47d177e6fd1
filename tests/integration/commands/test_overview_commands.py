"""`acker status`, `history` and `doctor` against a real acker."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from acker_client._cli.main import run
from acker_protocol import routes
from acker_service import VERSION

from tests.support.caller import ack, fail, init
from tests.support.keys import SCOPES, keys_file
from tests.support.servers import AckerProcess, acker_serve
from tests.support.waiting import eventually_true


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    def pairs(self) -> dict[str, str]:
        """The lines before the first table, by their names."""
        return dict(re.split(r" {2,}", line, maxsplit=1) for line in self.out.partition("\n\n")[0].splitlines())

    def rows(self, first: str) -> list[dict[str, str]]:
        """The rows of the table whose first column is called so; none without such a table."""
        tables = [part for part in self.out.split("\n\n") if part.startswith(first)]
        head, *lines = tables[0].splitlines() if tables else [""]
        names = head.split()
        return [dict(zip(names, re.split(r" {2,}", line.strip()), strict=True)) for line in lines]


Acker = Callable[..., Said]


@pytest.fixture(scope="module")
def acker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AckerProcess]:
    folder = tmp_path_factory.mktemp("acker")
    options = ("--data-dir", str(folder / "data"), "--mailbox-max", "500")
    with acker_serve(folder, *options, environment={"ACKER_MAX_WAITING": "77"}) as acker:
        yield acker


@pytest.fixture
def say(acker: AckerProcess, capsys: pytest.CaptureFixture[str]) -> Acker:
    """Runs the command line on the acker."""

    def run_on(*arguments: str, url: str = acker.url) -> Said:
        code = run([arguments[0], *arguments[1:], "--acker", url])
        captured = capsys.readouterr()
        return Said(code, captured.out, captured.err)

    return run_on


def apply(acker: AckerProcess, topology: str, ops: Sequence[dict[str, Any]]) -> None:
    assert acker.http.put(routes.topology(topology)).is_success
    assert acker.http.post(routes.operation(topology, "batch"), json={"ops": list(ops)}).is_success


def test_doctor_is_silent_on_a_healthy_acker(acker: AckerProcess, say: Acker) -> None:
    eventually_true(lambda: acker.http.get("/v1/status").json()["store"]["ticked"])
    apply(acker, "well", [op for root in range(1, 50) for op in (init(root, 9), ack(root, 9))])
    assert say("doctor") == Said(0, "", "")
    eventually_true(lambda: acker.http.get(f"{routes.topology('well')}/history").json()["points"])
    assert say("doctor") == Said(0, "", "")


def test_status_shows_the_acker_in_lines_and_its_processes_as_a_table(acker: AckerProcess, say: Acker) -> None:
    eventually_true(lambda: acker.http.get("/v1/status").json()["store"]["ticked"])
    shown = say("status")
    assert (shown.code, shown.err) == (0, "")
    pairs = shown.pairs()
    assert re.fullmatch(rf"{re.escape(VERSION)}, role all, started \d+ (s|min) ago", pairs["acker"])
    assert re.fullmatch(r"unix:///\S+, valkey [\d.]+, up", pairs["store"])
    assert re.fullmatch(r"\d+ MiB, without a limit", pairs["memory"])
    assert (pairs["durability"], pairs["time passes"], pairs["keys"]) == ("relaxed", "yes", "0")
    assert pairs["in_flight"] == "1 of 1000"
    assert pairs["waiting"] == "0 of 77"
    assert pairs["overloaded"] == "-"
    assert "warning" not in pairs
    [process] = shown.rows("PROCESS")
    assert (process["ROLE"], process["VERSION"], process["PID"]) == ("all", VERSION, str(acker.process.pid))


def test_status_shows_the_settings_with_their_sources_if_they_are_asked_for(say: Acker) -> None:
    assert "SETTING" not in say("status").out
    settings = {row["SETTING"]: (row["VALUE"], row["FROM"]) for row in say("status", "--settings").rows("SETTING")}
    assert settings["ACKER_MAILBOX_MAX"] == ("500", "option")
    assert settings["ACKER_MAX_WAITING"] == ("77", "environment")
    assert settings["ACKER_MAX_SPOUTS"] == ("10000", "default")
    assert list(settings) == sorted(settings)


def test_status_gives_programs_the_document_of_the_contract(acker: AckerProcess, say: Acker) -> None:
    document = json.loads(say("status", "-o", "json").out)
    answered = acker.http.get("/v1/status").json()
    assert document.keys() == answered.keys()
    assert document["settings"] == answered["settings"]


def test_history_is_a_table_of_points(acker: AckerProcess, say: Acker) -> None:
    apply(acker, "told", [op for root in range(1, 11) for op in (init(root, 9), ack(root, 9))])
    apply(acker, "told", [init(11, 9), fail(11), init(12, 9)])
    eventually_true(lambda: any(row["EMITTED"] != "0" for row in _history(say, "told")))
    rows = [row for row in _history(say, "told") if row["EMITTED"] != "0"]
    for name, number in {"EMITTED": 12, "ACKED": 10, "FAILED": 1, "TIMED_OUT": 0}.items():
        assert sum(int(row[name]) for row in rows) == number
    assert (rows[-1]["PENDING"], rows[-1]["UNREAD"]) == ("1", "11")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", rows[0]["AT"])
    [whole] = _history(say, "told", "--window", "all")
    assert (whole["EMITTED"], whole["ACKED"], whole["FAILED"], whole["PENDING"]) == ("12", "10", "1", "1")
    assert int(whole["P50_MS"]) <= int(whole["P99_MS"])


def _history(say: Acker, topology: str, *options: str) -> list[dict[str, str]]:
    shown = say("history", topology, *options)
    assert (shown.code, shown.err) == (0, "")
    return shown.rows("AT")


def test_the_history_of_an_unknown_topology_is_an_error_of_one_line(say: Acker) -> None:
    shown = say("history", "nowhere")
    assert (shown.code, shown.out) == (1, "")
    assert re.fullmatch(r"acker: there is no topology nowhere.*\n", shown.err)


def test_status_names_the_fault_of_a_file_of_keys_and_doctor_too(
    tmp_path: Path, say: Acker, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = keys_file(tmp_path, *SCOPES)
    monkeypatch.setenv("ACKER_API_KEY", "admin")
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data"), "--keys-file", str(file)) as keyed:
        assert say("status", url=keyed.url).pairs()["keys"] == "3"
        file.write_text("{")
        eventually_true(lambda: say("status", url=keyed.url).pairs()["keys"].startswith("3; the file cannot be read: "))
        found = say("doctor", url=keyed.url)
        assert found.code == 11
        assert found.out.startswith("trouble: the file of keys cannot be read: ")
        monkeypatch.setenv("ACKER_API_KEY", "ack")
        refused = say("status", url=keyed.url)
        assert (refused.code, refused.out) == (1, "")
        assert "needs admin (give a key by --api-key or ACKER_API_KEY)" in refused.err
