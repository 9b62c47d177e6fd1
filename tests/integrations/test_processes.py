"""A process is a bolt: each row of the table in docs/processes.md, with real processes and a real acker."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from acker_client import Acker, Completion, NotFound, Outcome

from examples.support.ports import free_port
from tests.support.pages import DOCS, fences
from tests.support.waiting import eventually_true

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent

STEP = "acker run --component step"

pytestmark = pytest.mark.timeout(300)


class Tree:
    """A root with one edge, and the processes that work on it."""

    def __init__(self, acker: Acker, url: str, folder: Path, *, message_timeout: float | None = None) -> None:
        self.acker = acker
        self.folder = folder
        self.environment = {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "ACKER_URL": url,
            "ACKER_TOPOLOGY": acker.topology,
            "TMPDIR": str(folder),
            **{name: value for name, value in os.environ.items() if name == "PYTHONPATH"},
        }
        self._spout = acker.spout("test")
        with self._spout.emit(message_id="42", message_timeout=message_timeout) as root:
            self.headers = root.headers()
        self.root_id = root.root_id
        self.environment["ACKER_ANCHORS"] = self.headers["Acker-Anchors"]

    def start(self, script: str, *options: str, **environment: str) -> "subprocess.Popen[str]":
        """Start ``acker run`` with a script of the shell, as the owner of the edge."""
        command = ["acker", "run", "--component", "build", *options, "--", "sh", "-c", script]
        pipe = subprocess.PIPE
        own = self.environment | environment
        return subprocess.Popen(command, env=own, cwd=self.folder, stdout=pipe, stderr=pipe, text=True)

    def run(self, script: str, *options: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run it to its end."""
        process = self.start(script, *options, **environment)
        out, err = process.communicate(timeout=250)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def call(self, *command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Call the command ``acker`` beside the run."""
        own = self.environment | environment
        return subprocess.run(["acker", *command], env=own, capture_output=True, text=True, check=False)

    def state(self) -> str:
        """The root's outcome, or its state while it has none."""
        found = self.acker.roots.get(self.root_id)
        return found.outcome or found.state

    def is_forgotten(self) -> bool:
        """Whether the acker knows the root no more."""
        with suppress(NotFound):
            return self.acker.roots.get(self.root_id) is None
        return True

    def completion(self, spout: str | None = None) -> Completion:
        """Wait for the completion of the root, or of one of a spout task that is shared; there is one only."""
        task = self._spout if spout is None else self.acker.shared_spout(spout)
        found: list[Completion] = []
        while not found:
            found = list(task.completions(until=0))
        [completion] = found
        return completion


@pytest.fixture
def tree(client: Acker, process, tmp_path: Path) -> Tree:
    return Tree(client, process.url, tmp_path)


@pytest.fixture
def short(client: Acker, process, tmp_path: Path) -> Tree:
    """A tree that is going to time out."""
    client.topologies.create(client.topology, message_timeout=15, dedupe_window=20)
    return Tree(client, process.url, tmp_path)


@pytest.fixture
def redelivered(client: Acker, process, tmp_path: Path) -> Tree:
    """A tree of a topology with a dedupe window."""
    client.topologies.create(client.topology, message_timeout=300, dedupe_window=300)
    return Tree(client, process.url, tmp_path)


def test_a_command_that_exits_with_0_acks(tree: Tree) -> None:
    ended = tree.run("echo out; echo err >&2")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "out\n", "err\n")
    assert tree.completion().acked


def test_a_command_that_fails_gives_the_last_line_of_its_stderr_as_reason_and_passes_its_exit_code_on(
    tree: Tree,
) -> None:
    ended = tree.run("echo first >&2; printf 'error: %01100d\n\n' 7 >&2; exit 3")
    completion = tree.completion()
    assert ended.returncode == 3
    assert (completion.outcome, completion.component) == (Outcome.FAILED, "build")
    assert completion.reason == "error: " + "0" * 1017


@pytest.mark.parametrize(
    ("script", "code", "reason"),
    [("exit 7", 7, "sh exited with 7"), ("kill -9 $$", 137, "sh was ended by SIGKILL")],
)
def test_a_command_that_fails_in_silence(tree: Tree, script: str, code: int, reason: str) -> None:
    assert tree.run(script).returncode == code
    assert tree.completion().reason == reason


RECORDED = Path(__file__).parent / "failed_commands"
"""What npm 11.19, pip 23.2, Maven 3.8, pytest 9.2 and Go 1.26 printed when they failed."""

REASONS = [
    ("npm", "npm-install", "npm error notarget No matching version found for left-pad@99.0.0."),
    ("npm", "npm-run", "Error: no such template: cart.html"),
    ("pip", "pip-install", "ERROR: No matching distribution found for attrs==0.0.1"),
    ("pip", "pip-build", "RuntimeError: no version of the compiler"),
    ("mvn", "maven", "[ERROR] /home/dev/shop/src/main/java/Cart.java:[3,16] cannot find symbol"),
    ("pytest", "pytest", "FAILED test_cart.py::test_a_cart_sums_up - assert 3 == 4"),
    ("pytest", "pytest-collect", "ERROR test_cart.py"),
    ("go", "go-build", "./main.go:4:10: undefined: total"),
    ("go", "go-test", "cart_test.go:7: the sum is 3, not 4"),
    (
        "go",
        "go-panic",
        "panic: runtime error: index out of range [3] with length 0 [recovered, repanicked]",
    ),
]


@pytest.mark.parametrize(("tool", "recorded", "reason"), REASONS, ids=[recorded for _, recorded, _ in REASONS])
def test_the_expression_of_the_page_finds_the_reason_in_what_a_tool_prints(
    tree: Tree, tool: str, recorded: str, reason: str
) -> None:
    [block] = [it.code for it in fences((DOCS / "processes.md").read_text()) if "--reason-from '" in it.code]
    commands = [shlex.split(line) for line in block.splitlines()]
    [expression] = [
        words[words.index("--reason-from") + 1] for words in commands if words[words.index("--") + 1] == tool
    ]
    printed = {kind: RECORDED / f"{recorded}.{kind}" for kind in ("stdout", "stderr")}
    script = "".join(f"cat {file} >&{number}; " for number, file in enumerate(printed.values(), 1) if file.exists())
    ended = tree.run(f"{script}exit 1", "--reason-from", expression)
    expected = [file.read_text() if file.exists() else "" for file in printed.values()]
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, *expected)
    assert tree.completion().reason == reason


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'error: out'; echo 'error: first' >&2; echo 'error: last' >&2; echo bye >&2", "error: last"),
        ("echo 'error: out'; echo bye >&2", "error: out"),
        ("echo out; echo bye >&2", "bye"),
        ("echo out", "sh exited with 1"),
        ("printf 'error: %01100d' 7", "error: " + "0" * 1017),
        ("printf '  \\033[31merror:\\033[0m red\\r\\n' >&2; echo bye >&2", "error: red"),
        ("echo 'error: early' >&2; head -c 200000 /dev/zero >&2", "error: early"),
        ("printf 'error' >&2; sleep 0.2; printf ': whole\\n' >&2", "error: whole"),
        ("printf 'error' >&2; sleep 0.2; printf '; not one\\nbye\\n' >&2", "bye"),
    ],
)
def test_the_reason_is_the_last_line_that_matches_of_stderr_else_of_stdout_else_as_without(
    tree: Tree, script: str, reason: str
) -> None:
    assert tree.run(f"{script}; exit 1", "--reason-from", "^error(:|$)").returncode == 1
    assert tree.completion().reason == reason


@pytest.mark.parametrize(
    ("closed", "reason"), [(">&-", "error: err"), ("2>&-", "error: out"), (">&- 2>&-", "sh exited with 3")]
)
def test_outputs_that_are_closed_give_no_reason(tree: Tree, closed: str, reason: str) -> None:
    command = "sh -c 'echo error: out; echo error: err >&2; exit 3'"
    run = f"acker run --component build --reason-from error -- {command} {closed}"
    ended = subprocess.run(["sh", "-c", run], env=tree.environment, cwd=tree.folder, timeout=250, check=False)
    assert ended.returncode == 3
    assert tree.completion().reason == reason


def test_a_command_whose_stdout_nobody_reads_any_more_ends_as_without_an_expression(tree: Tree) -> None:
    run = "acker run --component build --reason-from error -- sh -c 'while echo more; do :; done; touch survived'"
    ended = subprocess.run(
        ["sh", "-c", f"{run} | head -1"], env=tree.environment, cwd=tree.folder, timeout=250, check=True
    )
    assert ended.returncode == 0
    assert not (tree.folder / "survived").exists()
    assert tree.completion().reason == "sh was ended by SIGPIPE"


def test_a_command_whose_tree_has_ended_is_not_run_where_that_is_asked_for(tree: Tree) -> None:
    assert (tree.run("echo ran", "--skip-ended").stdout, tree.completion().acked) == ("ran\n", True)
    ended = tree.run("echo ran", "--skip-ended")
    assert (ended.returncode, ended.stdout, "its tree has ended" in ended.stderr) == (0, "", True)
    assert tree.run("echo ran").stdout == "ran\n"


def test_steps_that_start_steps_are_one_tree(tree: Tree) -> None:
    nested = f"{STEP} -- sh -c '{STEP} -- echo deep; acker run --component other --key b -- echo keyed'"
    ended = tree.run(
        f"{nested} & {STEP} -- true; acker join $ACKER_ANCHORS_ROOT; wait", ACKER_ANCHORS_ROOT=tree.root_id
    )
    assert ended.returncode == 0, ended.stderr
    assert "pending" in ended.stdout
    assert tree.completion().acked


def test_an_anchor_that_is_given_away_holds_the_tree_open_until_its_receiver_acks(tree: Tree) -> None:
    ended = tree.run("acker anchor --key mail")
    assert tree.state() == "pending"
    tree.acker.receive({"Acker-Anchors": ended.stdout.strip()}, component="mail").ack()
    assert tree.completion().acked


def test_a_step_with_an_anchor_of_its_own_owns_it(tree: Tree) -> None:
    ended = tree.run(f"ACKER_ANCHORS=$(acker anchor) {STEP} -- {STEP} -- true")
    assert ended.returncode == 0, ended.stderr
    assert tree.completion().acked


def test_a_program_with_the_client_makes_a_child_and_not_an_ack_of_the_runs_edge(tree: Tree) -> None:
    program = """
from acker_client import Acker
from acker_client.integrations.process import child_environment, received_headers
import os, subprocess
with Acker.from_env() as acker, acker.receive(received_headers(key="py"), component="py") as tup:
    subprocess.run(["acker", "run", "--component", "sub", "--", "true"], env=child_environment(tup), check=True)
"""
    (tree.folder / "program.py").write_text(program)
    ended = tree.run(f"{sys.executable} program.py && acker join $ROOT_ID", ROOT_ID=tree.root_id)
    assert (ended.returncode, ended.stdout) == (12, "pending\n"), ended.stderr
    assert tree.completion().outcome == Outcome.FAILED  # by join's exit code, which is the script's


def test_a_bolt_in_python_hands_a_child_to_a_process(tree: Tree) -> None:
    [block] = [fence.code for fence in fences((DOCS / "processes.md").read_text()) if fence.language == "python"]
    begin = "import os\nfrom acker_client import Acker\nacker = Acker.from_env()\n"
    headers = "headers = {'Acker-Anchors': os.environ['ACKER_ANCHORS']}\n"
    (tree.folder / "Makefile").write_text("all:\n\t@echo made $$ACKER_ANCHORS\n")
    command = [sys.executable, "-c", begin + headers + block]
    made = subprocess.run(command, env=tree.environment, cwd=tree.folder, capture_output=True, text=True, check=False)
    assert made.stdout.startswith(f"made 00 {tree.acker.topology} {tree.root_id}-"), made.stderr
    assert tree.environment["ACKER_ANCHORS"] not in made.stdout
    assert tree.completion().acked


def test_a_step_that_fails_fails_the_tree_though_the_script_goes_on(tree: Tree) -> None:
    ended = tree.run(f"{STEP} -- sh -c 'echo broken >&2; exit 1' || true")
    assert (ended.returncode, ended.stderr) == (0, "broken\n")
    completion = tree.completion()
    assert (completion.outcome, completion.component, completion.reason) == (Outcome.FAILED, "step", "broken")


def test_a_step_that_is_killed_is_never_acked(short: Tree) -> None:
    ended = short.run(f"{STEP} -- sh -c 'kill -9 $PPID' || true")
    assert ended.returncode == 0, ended.stderr
    assert short.completion().outcome == Outcome.TIMED_OUT


def test_a_run_that_is_killed_is_redelivered_and_completes(redelivered: Tree) -> None:
    script = f"{STEP} --key a -- touch a; [ -e again ] || {{ touch again; kill -9 $PPID; }}; {STEP} --key b -- touch b"
    first = redelivered.run(script, "--on-error", "leave-open")
    assert first.returncode == -signal.SIGKILL
    eventually_true((redelivered.folder / "b").exists)  # the command outlives its run
    assert redelivered.state() == "pending"
    assert redelivered.run(script, "--on-error", "leave-open").returncode == 0
    assert redelivered.completion().acked


def test_a_run_that_is_delivered_twice_at_once_is_acked_once(redelivered: Tree) -> None:
    runs = [redelivered.start(f"{STEP} --key a -- {STEP} --key b -- true") for _ in range(2)]
    for run in runs:
        assert run.communicate(timeout=250)[1] == ""
    assert [run.returncode for run in runs] == [0, 0]
    assert redelivered.completion().acked


def test_without_keys_a_second_delivery_is_never_acked_early(short: Tree) -> None:
    killed = short.run(f"{STEP} -- true; kill -9 $PPID")
    assert killed.returncode == -signal.SIGKILL
    assert short.run(f"{STEP} -- true").returncode == 0
    assert short.completion().outcome == Outcome.TIMED_OUT


def test_a_failure_that_is_left_open_waits_for_the_redelivery(redelivered: Tree) -> None:
    assert redelivered.run("exit 1", "--on-error", "leave-open").returncode == 1
    assert redelivered.state() == "pending"
    assert redelivered.run("true", "--on-error", "leave-open").returncode == 0
    assert redelivered.completion().acked


def test_left_open_without_a_dedupe_window_a_child_needs_a_key(tree: Tree) -> None:
    refused = tree.run(f"{STEP} -- true", "--on-error", "leave-open")
    assert refused.returncode == 125
    assert "give each child a key" in refused.stderr
    assert tree.run(f"{STEP} --key a -- true", "--on-error", "leave-open").returncode == 0
    assert tree.completion().acked


def test_a_step_is_tried_again_with_its_key_until_it_was_acked(tree: Tree) -> None:
    tried = "if [ -e tried ]; then true; else touch tried; false; fi"
    step = f"{STEP} --key a --on-error leave-open -- sh -c '{tried}'"
    ended = tree.run(f"until {step}; do :; done; {STEP} --key a -- true")
    assert ended.returncode == 125  # the key of a step that was acked is used up
    assert "exists already" in ended.stderr
    assert tree.completion().outcome == Outcome.FAILED


def test_the_timeout_is_reset_while_the_command_lives(tree: Tree) -> None:
    tree.acker.topologies.create(tree.acker.topology, message_timeout=12)
    slow = Tree(tree.acker, tree.environment["ACKER_URL"], tree.folder)
    assert slow.run("sleep 16").returncode == 0
    assert slow.completion().acked


def test_a_signal_is_passed_on_and_fails_the_tree(tree: Tree) -> None:
    run = tree.start("trap 'echo cleaned >&2; exit 5' TERM; touch ready; while :; do sleep 0.1; done")
    eventually_true((tree.folder / "ready").exists)
    run.send_signal(signal.SIGTERM)
    assert run.communicate(timeout=250)[1] == "cleaned\n"
    assert run.returncode == 5
    assert tree.completion().reason == "cleaned"


@pytest.mark.parametrize(("command", "code"), [("nowhere", 127), ("./plain", 126)])
def test_a_command_that_cannot_be_started_fails_the_tree(tree: Tree, command: str, code: int) -> None:
    (tree.folder / "plain").write_text("")
    ended = subprocess.run(
        ["acker", "run", "--component", "build", "--", command], env=tree.environment, cwd=tree.folder, check=False
    )
    assert ended.returncode == code
    assert f"{command} cannot be started" in (tree.completion().reason or "")


def test_a_process_that_outlives_the_command_cannot_add_a_child(tree: Tree) -> None:
    straggler = f"(while [ -e running ]; do sleep 0.1; done; {STEP} -- touch late; echo $? > code) >/dev/null 2>err &"
    (tree.folder / "running").write_text("")
    assert tree.run(straggler).returncode == 0
    assert tree.completion().acked
    (tree.folder / "running").unlink()
    eventually_true(lambda: (tree.folder / "code").exists() and (tree.folder / "code").read_text() == "125\n")
    assert "has ended" in (tree.folder / "err").read_text()
    assert not (tree.folder / "late").exists()


def test_a_command_whose_file_of_children_is_gone_fails(tree: Tree) -> None:
    assert tree.run("rm $ACKER_CHILDREN").returncode == 125
    assert tree.completion().outcome == Outcome.FAILED


@pytest.mark.parametrize(
    ("environment", "option"),
    [
        ({"ACKER_URL": "nowhere"}, "--key=a"),
        ({"ACKER_ANCHORS": "nonsense"}, "--key=a"),
        ({}, "--reset-interval=-1"),
        ({}, "--component=not a name"),
        ({}, "--reason-from=(error"),
        ({"ACKER_ANCHORS": ""}, "--reason-from=*"),
    ],
)
def test_a_command_is_not_started_where_its_run_cannot_be_tracked(
    tree: Tree, environment: dict[str, str], option: str
) -> None:
    ended = tree.run("touch started", option, **environment)
    assert (ended.returncode, (tree.folder / "started").exists()) == (125, False)
    assert ended.stderr.startswith("acker: ")


def test_an_ack_that_finds_no_acker_is_sent_again_until_there_is_one(tree: Tree, process) -> None:
    run = tree.start("touch ready; sleep 1")
    eventually_true((tree.folder / "ready").exists)
    process.kill()
    process.start()
    process.wait_until_ready()
    run.communicate(timeout=250)
    assert run.returncode == 0
    assert tree.completion().acked


def test_without_anchors_the_command_runs_untracked(tree: Tree) -> None:
    ended = tree.run(
        f"{STEP} -- true; acker anchor; exit 4", ACKER_ANCHORS="", ACKER_URL=f"http://127.0.0.1:{free_port()}"
    )
    assert (ended.returncode, ended.stdout) == (4, "\n")
    assert tree.state() == "pending"


def test_empty_anchors_are_said_to_be_no_tracking(tree: Tree) -> None:
    ended = tree.run("exit 4", ACKER_ANCHORS="")
    assert (ended.returncode, "so this run is not tracked" in ended.stderr) == (4, True)
    del tree.environment["ACKER_ANCHORS"]
    ended = tree.run("exit 4")
    assert (ended.returncode, ended.stderr) == (4, "")


def test_two_runs_with_one_header_are_told_that_the_second_counts_for_nothing(tree: Tree) -> None:
    assert tree.run("true").stderr == ""
    assert "do two runs share one header?" in tree.run("true").stderr


def test_a_process_that_outlives_the_command_goes_on_writing_to_stderr(tree: Tree) -> None:
    """Its pipe must not end with the run: a shell is killed by its next line then."""
    late = "sleep 3; echo first >&2; echo second >&2; touch survived"
    assert tree.run(f"sh -c '{late}' >/dev/null & exit 0").stderr == "first\nsecond\n"
    assert (tree.folder / "survived").exists()
    assert tree.completion().acked


def test_an_anchor_of_an_edge_that_this_process_owns_is_refused(tree: Tree) -> None:
    refused = tree.call("anchor")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "start it by acker run" in refused.stderr


def fail(tree: Tree) -> None:
    tree.acker.receive(tree.headers, component="x").fail("no")


@pytest.mark.parametrize(
    ("end", "arguments", "code", "word"),
    [
        (lambda tree: tree.acker.receive(tree.headers, component="x").ack(), (), 0, "acked"),
        (fail, ("--wait", "5"), 10, "failed"),
        (lambda _: None, ("--wait", "0.1"), 12, "pending"),
    ],
    ids=["acked", "failed", "open"],
)
def test_join_exits_with_the_outcome(
    tree: Tree, end: Callable[[Tree], None], arguments: Sequence[str], code: int, word: str
) -> None:
    end(tree)
    joined = tree.call("join", tree.environment["ACKER_ANCHORS"], *arguments)
    assert (joined.returncode, joined.stdout) == (code, f"{word}\n"), joined.stderr


def test_join_waits_for_a_timeout_and_exits_with_11(short: Tree) -> None:
    joined = short.call("join", short.root_id, "--wait", "600")
    assert (joined.returncode, joined.stdout) == (11, "timed_out\n"), joined.stderr


def test_join_says_why_a_root_failed_also_when_the_root_is_forgotten(client: Acker, process, tmp_path: Path) -> None:
    client.topologies.create(client.topology, message_timeout=300, retention=1)
    tree = Tree(client, process.url, tmp_path)
    fail(tree)
    joined = tree.call("join", tree.environment["ACKER_ANCHORS"])
    assert (joined.returncode, joined.stdout, joined.stderr) == (10, "failed\n", "acker: x: no\n")
    eventually_true(tree.is_forgotten, within=60)
    later = tree.call("join", tree.environment["ACKER_ANCHORS"])
    assert (later.returncode, later.stdout, later.stderr) == (10, "failed\n", "acker: x: no\n")


def test_join_of_nothing_says_that_emit_has_failed(tree: Tree) -> None:
    joined = tree.call("join", "")
    assert (joined.returncode, joined.stdout) == (2, "")
    assert "`acker emit` has printed no header" in joined.stderr


def test_join_of_a_root_that_never_was_exits_with_13(tree: Tree) -> None:
    joined = tree.call("join", "00000000000000ff", "--wait", "60")
    assert (joined.returncode, joined.stdout) == (13, "unknown\n")


def test_emit_begins_a_root_whose_completion_its_spout_reads(tree: Tree) -> None:
    emitted = tree.call("emit", "--message-id", "nightly", "--spout", "cron", "--message-timeout", "60")
    tree.environment["ACKER_ANCHORS"] = emitted.stdout.strip()
    assert tree.run("true").returncode == 0
    found: list[str] = []
    tree.acker.shared_spout("cron").listen(on_ack=found.append, stop=lambda: found)
    assert found == ["nightly"]


def test_emit_begins_a_root_that_ends_when_all_have_ended(tree: Tree) -> None:
    emitted = tree.call("emit", "--message-id", "import", "--spout", "cron", "--end-on", "all_ended")
    tree.environment["ACKER_ANCHORS"] = emitted.stdout.strip()
    script = f"{STEP} -- false; {STEP} -- true; {STEP} -- sh -c 'echo no price >&2; exit 1'; true"
    assert tree.run(script).returncode == 0
    completion = tree.completion("cron")
    assert (completion.outcome, completion.failures) == (Outcome.FAILED, 2)


def test_a_command_that_fails_ends_with_the_steps_that_it_has_handed_on(tree: Tree) -> None:
    emitted = tree.call("emit", "--message-id", "import", "--spout", "cron", "--end-on", "all_ended")
    tree.environment["ACKER_ANCHORS"] = emitted.stdout.strip()
    assert tree.run("acker anchor > child; exit 3").returncode == 3
    child = (tree.folder / "child").read_text().strip()
    assert tree.call("join", child).stdout == "pending\n"
    assert tree.call("ack", child).returncode == 0
    completion = tree.completion("cron")
    assert (completion.outcome, completion.failures) == (Outcome.FAILED, 1)


def test_emit_refuses_an_end_that_is_unknown(tree: Tree) -> None:
    refused = tree.call("emit", "--message-id", "import", "--end-on", "all")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--end-on" in refused.stderr


def test_the_page_works_when_pasted(process, tmp_path: Path) -> None:
    text = (DOCS / "processes.md").read_text()
    script, answer = [fence.code for fence in fences(text) if fence.language in ("sh", "text")][:2]
    assert "http://127.0.0.1:8700" in script
    environment = {"PATH": f"{BIN}:{os.environ['PATH']}"}
    ended = subprocess.run(
        ["sh", "-c", script.replace("http://127.0.0.1:8700", process.url)],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout.strip()) == (0, answer.strip()), ended.stderr


def test_the_example_says_that_it_failed_and_exits_with_10(process, tmp_path: Path) -> None:
    broken = tmp_path / "build.sh"
    broken.write_text((ROOT / "examples/shell/build.sh").read_text().replace('echo "compiled $1"', "false"))
    environment = {"PATH": f"{BIN}:{os.environ['PATH']}", "ACKER_URL": process.url}
    ended = subprocess.run(
        ["sh", str(broken)], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 10
    assert "failed" in ended.stdout.splitlines()


def test_the_example_builds_and_is_one_tree(process, tmp_path: Path) -> None:
    environment = {"PATH": f"{BIN}:{os.environ['PATH']}", "ACKER_URL": process.url}
    command = ["sh", str(ROOT / "examples/shell/build.sh")]
    ended = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "acked"
    assert sorted(ended.stdout.splitlines()[:-1]) == [
        "compiled kernel", "compiled shell", "fetched sources", "linked kernel shell", "tested kernel", "tested shell",
    ]  # fmt: skip
