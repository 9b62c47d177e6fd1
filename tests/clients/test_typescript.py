"""The package of the client for TypeScript is installed as its README says, and what its pages show is what happens."""

import json
import shutil
import subprocess
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from acker_client import Acker
from pika import BasicProperties

from examples.support.broker import running_broker
from tests.support.broker import need_broker
from tests.support.examples import run
from tests.support.pages import DOCS, ROOT, fences
from tests.support.programs import needed
from tests.support.servers import AckerProcess, acker_serve

PACKAGE = ROOT / "client/typescript"
PAGES = (PACKAGE / "README.md", DOCS / "typescript.md")

MARK = "<!-- tested by tests/clients/test_typescript.py -->"

pytestmark = pytest.mark.timeout(600)


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
    shell(f"{commands} --pack-destination {folder}", cwd=ROOT)
    (folder / "package.json").write_text("{}")
    shell(f"{npm} install --offline ./acker-client-0.1.0.tgz", cwd=folder)
    return folder


def shell(commands: str, *, cwd: Path) -> None:
    ran = subprocess.run(["bash", "-euc", commands], cwd=cwd, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_what_happens(page: Path, program: Path, acker: AckerProcess) -> None:
    text = "\n".join(
        f"```{each.language}\n{each.code}\n```" for each in fences(page.read_text()) if each.language != "sh"
    )
    run(text, "js", url=acker.url, folder=program)


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


def test_a_bolt_on_rabbitmq_and_bolts_in_python_are_of_one_tree(
    program: Path, acker: AckerProcess, tmp_path: Path
) -> None:
    need_broker()
    (program / "node_modules/amqplib").unlink(missing_ok=True)
    (program / "node_modules/amqplib").symlink_to(PACKAGE / "node_modules/amqplib")
    shutil.copy(Path(__file__).parent / "amqp_bolt.mjs", program)
    with running_broker(tmp_path / "rabbitmq") as broker, Acker(acker.url) as python:
        command = [needed("node"), "amqp_bolt.mjs", broker.url, acker.url]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, cwd=program, stdin=pipe, stdout=pipe) as bolt:
            assert bolt.stdout is not None
            assert bolt.stdout.readline() == b"ready\n"
            connection = broker.connect()
            channel, spout = connection.channel(), python.spout("lines")
            with spout.emit("42") as root:
                properties = BasicProperties(headers=root.anchor("line").amqp_headers({"trace": "1"}))
                channel.basic_publish("", "lines", b"to be or", properties)
            words = [channel_get(channel, "words") for _ in range(3)]
            for properties, word in words:
                assert properties.headers["trace"] == "1"
                with python.receive(properties.headers, component="count"):
                    assert word in (b"to", b"be", b"or")
            ended: list[str] = []
            spout.listen(on_ack=ended.append, on_fail=ended.append, stop=lambda: ended)
            connection.close()
            bolt.communicate(b"")
    assert (ended, bolt.returncode) == (["42"], 0)


def channel_get(channel: Any, queue: str) -> tuple[BasicProperties, bytes]:
    """Take a message from a queue, once there is one."""
    while (found := channel.basic_get(queue, auto_ack=True))[0] is None:
        time.sleep(0.02)
    _, properties, body = found
    return properties, body


def test_its_version_is_that_of_the_other_distributions() -> None:
    python = tomllib.loads((ROOT / "client/pyproject.toml").read_text())["project"]["version"]
    assert json.loads((PACKAGE / "package.json").read_text())["version"] == python
    assert json.loads((PACKAGE / "package-lock.json").read_text())["version"] == python


def test_its_lock_names_no_registry() -> None:
    assert "resolved" not in (PACKAGE / "package-lock.json").read_text()


def test_the_package_holds_what_a_program_needs_and_no_more(program: Path) -> None:
    held = {path.name for path in (program / "node_modules/acker-client").iterdir()}
    assert held == {"LICENSE", "README.md", "dist", "package.json"}
