"""The comparison's programs run, or compile; what its table says of redelivered and lost pieces is shown."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import dramatiq
import pika
import pytest
from acker_client import Acker, Completion, Root
from acker_client.sources.rabbitmq import Delivery, RabbitSpout
from dramatiq.broker import MessageProxy
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import GroupCallbacks
from dramatiq.rate_limits.backends import StubBackend

from bench.peers import install
from examples.support.acker import create_topology
from examples.support.broker import Broker
from tests.support.pages import DOCS, ROOT
from tests.support.programs import needed
from tests.support.servers import AckerProcess, acker_serve, free_port

pytestmark = pytest.mark.timeout(400)

PROGRAMS = ("with_acker", "with_dramatiq", "with_faststream")
IMPORTS = ("import_with_acker", "import_with_celery", "import_with_dramatiq")
ALL_ENDED = "all rows have ended, 3 failed"
ENDS = ("end_with_acker", "end_with_celery", "end_with_dramatiq")
IMPORTED = re.compile(r"(?P<told>.*?)(?P<imported>\d+) of 10000 rows imported")
COUNTS = {"and": 1, "dog": 1, "fox": 1, "free": 1, "is": 1, "room": 1, "the": 2}


@pytest.fixture(scope="module")
def store_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def acker(tmp_path_factory: pytest.TempPathFactory, store_port: int) -> Iterator[AckerProcess]:
    """An acker whose store the other programs use as their Redis."""
    folder = tmp_path_factory.mktemp("comparison")
    with acker_serve(folder, "--data-dir", str(folder / "data"), "--store-port", str(store_port)) as acker:
        yield acker


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_counts_each_word_once_though_the_store_is_away_and_reports_what_is_not_a_word(
    program: str, broker: Broker, acker: AckerProcess, store_port: int
) -> None:
    ran = run([sys.executable, "-m", f"examples.comparison.{program}"], broker.url, acker, store_port)
    assert ran.stdout.splitlines()[-2:] == ["done line-1 line-2 line-3", str(COUNTS)]
    assert "'2' is not a word" in ran.stdout + ran.stderr


def run(
    command: Sequence[str | Path], rabbitmq_url: str, acker: AckerProcess, store_port: int
) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end."""
    addresses = {
        "ACKER_URL": acker.url,
        "RABBITMQ_URL": rabbitmq_url,
        "REDIS_URL": f"redis://127.0.0.1:{store_port}",
    }
    environment = os.environ | addresses
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran


@pytest.mark.parametrize("program", IMPORTS)
def test_an_import_says_when_all_of_its_rows_have_ended_and_how_many_failed(
    program: str, broker: Broker, acker: AckerProcess, store_port: int
) -> None:
    ran = run([sys.executable, "-m", f"examples.comparison.{program}"], broker.url, acker, store_port)
    assert ran.stdout.splitlines()[-1] == ALL_ENDED, ran.stderr


def run_in_node(
    program: str, broker: Broker, acker: AckerProcess, store_port: int
) -> "subprocess.CompletedProcess[str]":
    """Run a program in Node, which looks for packages beside it: so it is copied to where they are installed."""
    needed("npm")
    copy = shutil.copy(ROOT / f"examples/comparison/{program}.mjs", install.node())
    return run([needed("node"), copy], broker.url, acker, store_port)


def test_an_import_with_bullmq_says_so_too(broker: Broker, acker: AckerProcess, store_port: int) -> None:
    ran = run_in_node("import_with_bullmq", broker, acker, store_port)
    assert ran.stdout.splitlines()[-1] == ALL_ENDED, ran.stderr


@pytest.mark.parametrize("program", ENDS)
def test_an_import_that_is_ended_leaves_most_rows_out(
    program: str, broker: Broker, acker: AckerProcess, store_port: int
) -> None:
    ran = run([sys.executable, "-m", f"examples.comparison.{program}"], broker.url, acker, store_port)
    found = IMPORTED.fullmatch(ran.stdout.splitlines()[-1])
    assert found, ran.stderr
    assert 100 <= int(found["imported"]) < 10_000
    assert found["told"] == ("failed, forced: stopped by an operator: " if program == "end_with_acker" else "")


def test_so_does_one_with_bullmq(broker: Broker, acker: AckerProcess, store_port: int) -> None:
    ran = run_in_node("end_with_bullmq", broker, acker, store_port)
    found = IMPORTED.fullmatch(ran.stdout.splitlines()[-1])
    assert found, ran.stderr
    assert 100 <= int(found["imported"]) < 10_000


def test_the_topology_of_storm_compiles(tmp_path: Path) -> None:
    project = ROOT / "examples/comparison/storm/pom.xml"
    command = [needed("mvn"), "--quiet", "--batch-mode", "--file", project, f"-DbuildDirectory={tmp_path}", "compile"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=360, check=False)
    assert ran.returncode == 0, ran.stdout
    assert (tmp_path / "classes/LineCount.class").exists()


def test_the_page_shows_each_program_as_it_is() -> None:
    page = (DOCS / "comparison.md").read_text()
    for program in (*PROGRAMS, *IMPORTS, *ENDS):
        source = (ROOT / f"examples/comparison/{program}.py").read_text()
        assert source.partition('"""\n\n')[2].strip() in page, f"docs/comparison.md shows another {program}.py"
    assert (ROOT / "examples/comparison/storm/src/main/java/LineCount.java").read_text().strip() in page
    for program in ("import_with_bullmq", "end_with_bullmq"):
        flow = (ROOT / f"examples/comparison/{program}.mjs").read_text()
        assert flow.partition("\n\n")[2].strip() in page, f"docs/comparison.md shows another {program}.mjs"


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """A broker of Dramatiq in memory, with callbacks of groups."""
    broker = StubBroker()
    broker.add_middleware(GroupCallbacks(StubBackend()))
    broker.emit_after("process_boot")
    yield broker
    broker.close()


Group = Callable[..., dramatiq.group]


@pytest.fixture
def group(stub: StubBroker) -> Group:
    """Makes a group of pieces with a callback ``done``, as yet not run."""
    piece = dramatiq.actor(broker=stub, actor_name="piece")(lambda _name: None)
    done = dramatiq.actor(broker=stub, actor_name="done")(lambda _name: None)

    def make(*names: str) -> dramatiq.group:
        made = dramatiq.group([piece.message(name) for name in names], broker=stub)
        made.add_completion_callback(done.message("all"))
        return made

    return make


def taken(stub: StubBroker) -> list[MessageProxy]:
    """Take what is in the queue."""
    queue = stub.queues["default"]
    return [MessageProxy(dramatiq.Message.decode(queue.get(timeout=5))) for _ in range(queue.qsize())]


def actors(stub: StubBroker) -> list[str]:
    """The actors of what is in the queue, which is taken."""
    return [message.actor_name for message in taken(stub)]


def test_a_group_of_dramatiq_calls_back_too_early_when_a_piece_is_delivered_twice_and_again_at_the_last(
    stub: StubBroker, group: Group
) -> None:
    group("a", "b").run()
    first, last = taken(stub)
    for _ in range(2):  # a worker dies after the group's count and before its ack: the broker delivers the piece again
        stub.emit_after("process_message", first)
    assert actors(stub) == ["done"]
    stub.emit_after("process_message", last)
    assert actors(stub) == ["done"]


def test_a_group_of_dramatiq_of_which_a_piece_fails_never_calls_back(stub: StubBroker, group: Group) -> None:
    group("a", "b").run()
    first, last = taken(stub)
    stub.emit_after("process_message", first, exception=ValueError("row 3 has no price"))
    stub.emit_after("process_message", last)
    assert actors(stub) == []


def test_an_empty_group_of_dramatiq_with_a_callback_raises(group: Group) -> None:
    with pytest.raises(AssertionError, match="parties must be a positive integer"):
        group().run()


def test_a_group_of_dramatiq_whose_queue_is_emptied_waits(stub: StubBroker, group: Group) -> None:
    group("a", "b").run()
    first, _ = taken(stub)
    stub.emit_after("process_message", first)
    assert actors(stub) == []


def test_a_queue_that_an_operator_empties_costs_a_timeout_and_the_line_comes_again(
    broker: Broker, acker: AckerProcess
) -> None:
    create_topology(acker.url, "emptied", message_timeout=1)
    channel = broker.connect().channel()
    for queue in ("emptied-lines", "emptied-words"):
        channel.queue_declare(queue)
    channel.basic_publish("", "emptied-lines", b"a line", pika.BasicProperties(message_id="1"))
    outcomes: list[str] = []

    def send(root: Root, line: Delivery) -> None:
        line.publish("emptied-words", line.body, root.anchor())

    def note(completion: Completion, _: Delivery) -> None:
        channel.queue_purge("emptied-words")
        outcomes.append(completion.outcome)

    with Acker(acker.url, topology="emptied") as client:
        spout = RabbitSpout(
            client, spout="lines", url=broker.url, queue="emptied-lines", send=send, on_completed=note, requeue_delay=0
        )
        spout.run(stop=lambda: len(outcomes) > 1, drain_timeout=0)
    channel.connection.close()
    assert len(outcomes) > 1, "it comes again until the spout stops"
    assert {*outcomes} == {"timed_out"}
