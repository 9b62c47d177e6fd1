"""Tests how processes make children of a run's edge: the environment, and the file that lists the children."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from acker_client import Acker, DuplicateKey, InvalidHeader, UsageError
from acker_client._cli.commands import NOUNS, OWN
from acker_client._cli.main import run
from acker_client.integrations.process import ChildrenFile, child_environment, received_headers
from acker_protocol.anchors import Anchors, parse_anchors
from acker_protocol.ids import derive_edge

ONE = "00 orders 00000000000000a1-00000000000000e1"
TWO = "00 orders 00000000000000a1-00000000000000e1,00000000000000a2-00000000000000e2"


@pytest.fixture
def file() -> ChildrenFile:
    return ChildrenFile.create(parse_anchors(TWO), component="build", needs_keys=False)


@pytest.fixture
def within(file: ChildrenFile) -> dict[str, str]:
    """The environment of a command within a run."""
    return {"ACKER_ANCHORS": TWO, "ACKER_CHILDREN": str(file.path)}


def header(headers: dict[str, str]) -> Anchors:
    return parse_anchors(headers["Acker-Anchors"])


def test_a_process_without_a_file_of_children_owns_its_edge():
    assert header(received_headers(environment={"ACKER_ANCHORS": ONE})) == parse_anchors(ONE)
    assert received_headers(environment={}) == received_headers(environment={"ACKER_ANCHORS": ""}) == {}


def test_a_process_within_a_run_makes_a_child_in_each_tree_which_is_listed_before_it_is_used(file, within):
    child = header(received_headers(environment=within))
    assert [anchor.root_id for anchor in child.anchors] == [0xA1, 0xA2]
    assert {anchor.edge_id for anchor in child.anchors}.isdisjoint({0xE1, 0xE2})
    assert file.close() == [child]


def test_the_edge_of_a_key_is_that_of_the_client(file, within):
    child = header(received_headers("a", environment=within))
    assert [anchor.edge_id for anchor in child.anchors] == [
        derive_edge(root_id=root, parent_edge=edge, component="build", name="a")
        for root, edge in ((0xA1, 0xE1), (0xA2, 0xE2))
    ]


def test_a_key_that_comes_again_is_the_same_child_until_that_was_acked(file, within):
    child = header(received_headers("a", environment=within))
    assert header(received_headers("a", environment=within)) == child
    assert file.claim_ack(child)
    assert not file.claim_ack(child)
    with pytest.raises(DuplicateKey):
        received_headers("a", environment=within)
    assert file.close() == [child]


def test_a_process_with_other_anchors_than_the_run_around_it_owns_them(file, within):
    assert header(received_headers(environment=within | {"ACKER_ANCHORS": ONE})) == parse_anchors(ONE)
    assert file.close() == []


def test_after_the_end_of_the_run_no_child_is_added_and_an_ack_is_sent(file, within):
    child = header(received_headers(environment=within))
    file.close()
    with pytest.raises(UsageError, match="has ended"):
        received_headers(environment=within)
    assert file.claim_ack(child)


def test_a_process_that_waits_for_the_lock_while_the_run_ends_adds_no_child(file, within, monkeypatch):
    """The file is removed between opening and locking it."""
    monkeypatch.setattr("fcntl.flock", lambda *_: file.path.unlink(missing_ok=True))
    with pytest.raises(UsageError, match="has ended"):
        file.add(None)


def test_where_keys_are_needed_a_child_without_one_is_refused():
    file = ChildrenFile.create(parse_anchors(ONE), component="build", needs_keys=True)
    with pytest.raises(UsageError, match="give each child a key"):
        file.add(None)
    assert file.close() == []


def test_only_its_user_can_read_the_file(file):
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda text: text + "child 00 orders 00000000000000a1-00", "damaged"),
        (lambda text: text + "nonsense\n", "damaged"),
        (lambda text: text + "child nothing\n", "damaged"),
        (lambda _: "", "damaged"),
    ],
    ids=["half a line", "another line", "no header", "empty"],
)
def test_a_damaged_file_gives_no_children(file, change, what):
    file.path.write_text(change(file.path.read_text()))
    with pytest.raises(UsageError, match=what):
        file.close()
    assert not file.path.exists()


def test_a_line_is_written_wholly_or_not_at_all(file, monkeypatch):
    write = os.write
    monkeypatch.setattr("os.write", lambda descriptor, data: write(descriptor, data[:10]))
    with pytest.raises(OSError, match="cannot be written"):
        file.add(None)
    monkeypatch.undo()
    assert file.close() == []


def test_the_environment_of_a_child_has_its_anchors_and_not_the_file_of_the_run_around_it(acker: Acker, within):
    tup = acker.receive({"Acker-Anchors": ONE.replace("orders", acker.topology)}, component="build")
    found = child_environment(tup, "make", environment=within | {"HOME": "/"})
    assert found.keys() == {"ACKER_ANCHORS", "HOME"}
    edge = derive_edge(root_id=0xA1, parent_edge=0xE1, component="build", name="make")
    assert parse_anchors(found["ACKER_ANCHORS"]).ids == (0xA1, edge)
    assert child_environment(acker.receive({}, component="build"), environment=within) == {}


def test_anchors_that_cannot_be_read_are_an_error():
    with pytest.raises(InvalidHeader):
        received_headers(environment={"ACKER_ANCHORS": "nothing"})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--component", "x"], "stands behind --"),
        (["run", "--component", "x", "--"], "stands behind --"),
        (["run", "--", "true"], "--component"),
        (["join"], "ROOT"),
        (["emit"], "--message-id"),
        (["run", "--component", "x", "--on-error", "ignore", "--", "true"], "--on-error"),
    ],
)
def test_a_command_line_that_cannot_be_read_ends_with_2_and_a_line(arguments, said, capsys):
    try:
        code = run(arguments)
    except SystemExit as error:
        code = error.code
    assert code == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize("command", [name for name in OWN if name not in NOUNS])
def test_each_command_describes_its_options(command, capsys):
    with pytest.raises(SystemExit) as ended:
        run([command, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"Usage: acker {command} [OPTIONS]")


def test_anchor_imports_no_httpx(within, file):
    program = "import sys; from acker_client._cli.main import run; run(['anchor']); print('httpx' in sys.modules)"
    command = [sys.executable, "-c", program]
    printed = subprocess.run(command, env=within, capture_output=True, text=True, check=True).stdout.splitlines()
    assert printed[1] == "False"
    assert file.close() == [parse_anchors(printed[0])]


def test_the_file_is_in_the_folder_for_temporary_files(file):
    assert file.path.parent == Path(os.environ.get("TMPDIR", "/tmp"))
