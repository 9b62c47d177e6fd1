"""The package of the client for TypeScript is installed as its README says, and what its pages show is what happens."""

import json
import shutil
import subprocess
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from acker_client import Acker
from acker_client.sync.spout import Spout
from confluent_kafka import Consumer, Producer
from pika import BasicProperties

from examples.support.broker import running_broker
from examples.support.kafka import running_kafka
from tests.conformance.programs import building
from tests.support.broker import need_broker
from tests.support.examples import run
from tests.support.kafka import need_kafka
from tests.support.pages import DOCS, ROOT, fences
from tests.support.programs import needed
from tests.support.servers import AckerProcess, acker_serve

PACKAGE = ROOT / "client/typescript"
PAGES = (PACKAGE / "README.md", DOCS / "typescript.md")

FIRST_LINES = ROOT / "service/src/acker_service/web/first_lines.js"
"""What the page of a fresh acker shows."""

MARK = "<!-- tested by tests/clients/test_typescript.py -->"

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("package")]


@pytest.fixture(scope="module")
def acker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AckerProcess]:
    folder = tmp_path_factory.mktemp("acker")
    with acker_serve(folder, "--data-dir", str(folder / "data")) as acker:
        yield acker


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a program into which the package was installed, by the commands of the README."""
    folder = tmp_path_factory.mktemp("program")
    npm = needed("npm")
    [commands] = [fence.code for fence in fences(PAGES[0].read_text()) if fence.language == "sh"]
    with building("typescript"):
        shell(f"{commands} --pack-destination {folder}", cwd=ROOT)
    (folder / "package.json").write_text("{}")
    shell(f"{npm} install --offline ./acker-client-0.1.0.tgz", cwd=folder)
    return folder


def shell(commands: str, *, cwd: Path) -> None:
    ran = subprocess.run(["bash", "-euc", commands], cwd=cwd, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_what_happens(page: Path, program: Path, acker: AckerProcess) -> None:
    text = "\n".join(
        f"```{each.language}\n{each.code}\n```" for each in fences(page.read_text()) if each.language != "sh"
    )
    run(text, "js", url=acker.url, folder=program)


def test_the_first_message_of_the_page_runs_and_its_root_is_acked(program: Path, acker: AckerProcess) -> None:
    lines = subprocess.run(
        [needed("node"), "--input-type=module"],
        input=f"{FIRST_LINES.read_text()}\nconsole.log(linesOf({json.dumps(acker.url)}, 'default').TypeScript);",
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    (program / "first.mjs").write_text(lines)
    ran = subprocess.run([needed("node"), "first.mjs"], cwd=program, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.returncode) == ("hello\n", 0), ran.stderr
    with Acker(acker.url) as python:
        [first] = [task.name for task in python.spouts.list() if task.name.startswith("first")]
        ended: list[tuple[str | None, bool]] = []
        for completion in python.shared_spout(first).completions(stop=lambda: bool(ended)):
            ended.append((completion.message_id, completion.acked))  # noqa: PERF401 - `stop` reads it meanwhile
    assert ended == [("hello", True)]


def test_the_bolts_of_the_readme_count_the_words_of_a_line(program: Path, acker: AckerProcess) -> None:
    """Those of README.md, with a spout that emits a line and reads its completion."""
    [bolts] = [each.code for each in fences((ROOT / "README.md").read_text()) if each.mark == MARK]
    spout = """
const spout = acker.spout("lines");
await split(await spout.emit("42", (root) => root.headers()), "to be or");
for (const [headers, word] of words) await count(headers, word);
const ended = [];
for await (const { outcome } of spout.completions({ stop: () => ended.length > 0 })) ended.push(outcome);
console.log(ended[0]);
await acker.close();
"""
    run(f"```js\n{bolts}\n{spout}```\n```text\nto\nbe\nor\nacked\n```", "js", url=acker.url, folder=program)


@contextmanager
def running_bolt(program: Path, library: str, file: str, *arguments: str) -> Iterator[None]:
    """Run a bolt in JavaScript that reads a queue by a library until the block is left; then it has to end well."""
    (program / "node_modules" / library).unlink(missing_ok=True)
    (program / "node_modules" / library).symlink_to(PACKAGE / "node_modules" / library)
    shutil.copy(Path(__file__).parent / file, program)
    command, pipe = [needed("node"), file, *arguments], subprocess.PIPE
    with subprocess.Popen(command, cwd=program, stdin=pipe, stdout=pipe) as bolt:
        assert bolt.stdout is not None
        try:
            assert bolt.stdout.readline() == b"ready\n"
            yield
        except BaseException:
            bolt.kill()
            raise
        bolt.communicate(b"")
    assert bolt.returncode == 0


def count(python: Acker, headers: Any, word: bytes) -> bytes:
    """Be the second bolt, in Python."""
    with python.receive(headers, component="count"):
        return word


def acked(spout: Spout) -> list[str]:
    """Wait for the end of the only root, and return its message id if it was acked."""
    done, failed = list[str](), list[str]()
    spout.listen(on_ack=done.append, on_fail=failed.append, stop=lambda: bool(done or failed))
    return done


def test_a_bolt_on_rabbitmq_and_bolts_in_python_are_of_one_tree(
    program: Path, acker: AckerProcess, tmp_path: Path
) -> None:
    need_broker()
    with (
        running_broker(tmp_path / "rabbitmq") as broker,
        running_bolt(program, "amqplib", "amqp_bolt.mjs", broker.url, acker.url),
        Acker(acker.url) as python,
        broker.connect() as connection,
    ):
        channel, spout = connection.channel(), python.spout("lines")
        with spout.emit("42") as root:
            properties = BasicProperties(headers=root.anchor("line").amqp_headers({"trace": "1"}))
            channel.basic_publish("", "lines", b"to be or", properties)
        came = [taken(channel, "words") for _ in range(3)]
        assert [properties.headers["trace"] for properties, _ in came] == ["1", "1", "1"]
        assert [count(python, properties.headers, word) for properties, word in came] == [b"to", b"be", b"or"]
        assert acked(spout) == ["42"]


def taken(channel: Any, queue: str) -> tuple[BasicProperties, bytes]:
    """Take a message from a queue, once there is one."""
    while (found := channel.basic_get(queue, auto_ack=True))[0] is None:
        time.sleep(0.02)
    _, properties, body = found
    return properties, body


def test_a_bolt_on_kafka_and_bolts_in_python_are_of_one_tree(
    program: Path, acker: AckerProcess, tmp_path: Path
) -> None:
    need_kafka()
    with running_kafka(tmp_path / "kafka") as broker, Acker(acker.url) as python:
        broker.create_topic("lines")
        broker.create_topic("words")
        with running_bolt(program, "kafkajs", "kafka_bolt.mjs", broker.address, acker.url):
            spout = python.spout("lines")
            producer = Producer({"bootstrap.servers": broker.address, "log_level": 2})
            with spout.emit("42") as root:
                headers = root.anchor("line").kafka_headers([("trace", b"1")])
                producer.produce("lines", value=b"to be or", headers=headers)
            assert producer.flush(30) == 0
            came = consumed(broker.address, "words", 3)
            assert [dict(headers)["trace"] for headers, _ in came] == [b"1", b"1", b"1"]
            assert [count(python, headers, word) for headers, word in came] == [b"to", b"be", b"or"]
            assert acked(spout) == ["42"]


def consumed(address: str, topic: str, records: int) -> list[tuple[Any, bytes]]:
    """Read so many records of a topic, with their headers."""
    settings = {"bootstrap.servers": address, "group.id": "count", "auto.offset.reset": "earliest", "log_level": 2}
    consumer, found = Consumer(settings), list[tuple[Any, bytes]]()
    consumer.subscribe([topic])
    while len(found) < records:
        record = consumer.poll(1.0)
        if record is not None and record.error() is None:
            found.append((record.headers(), record.value()))
    consumer.close()
    return found


@pytest.mark.parametrize("scripts", ["npm run --silent check", "npm run --silent build:tests && npm test --silent"])
def test_its_checks_and_tests_pass(scripts: str, program: Path) -> None:
    with building("typescript"):
        shell(scripts, cwd=PACKAGE)


def test_its_version_is_that_of_the_other_distributions() -> None:
    python = tomllib.loads((ROOT / "client/pyproject.toml").read_text())["project"]["version"]
    assert json.loads((PACKAGE / "package.json").read_text())["version"] == python
    assert json.loads((PACKAGE / "package-lock.json").read_text())["version"] == python


def test_its_lock_names_no_registry() -> None:
    assert "resolved" not in (PACKAGE / "package-lock.json").read_text()


def test_the_package_holds_what_a_program_needs_and_no_more(program: Path) -> None:
    held = {path.name for path in (program / "node_modules/acker-client").iterdir()}
    assert held == {"LICENSE", "README.md", "dist", "package.json"}
