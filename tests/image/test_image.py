"""The image: built twice the same, run as the chart runs it, and stopped in the middle of its work."""

import contextlib
import http.client
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from acker_service.http.keys import entry

from tests.image.building import Built, build
from tests.image.conftest import TAG
from tests.image.engine import Engine
from tests.image.kubelet import Pod, kept_by, pods_of, secret
from tests.image.running import URL, Container, answers, connection, passes, running
from tests.support.caller import Document, ack, init
from tests.support.waiting import eventually_true

pytestmark = pytest.mark.timeout(1800)

DEFAULT = "/v1/topologies/default"
INSTALL = Path(__file__).parents[2] / "deploy/install.yaml"
KEY = "acker_for-this-test-alone"
AS_ADMIN = {"Authorization": f"Bearer {KEY}"}
KEYS = secret(
    "acker-keys", keys_json=json.dumps({"keys": [json.loads(entry("test", KEY, scope="admin", topologies=[]))]})
)
KEPT = kept_by([secret("acker-redis", url="redis://127.0.0.1:6379/0"), KEYS])
NOWHERE = kept_by([secret("acker-redis", url="redis://127.0.0.1:6380/0"), KEYS])
LOOK_AROUND = """
import glob, json, os
status = dict(line.split(":", 1) for line in open("/proc/1/status"))
def writable(path):
    try: open(path, "w").close()
    except OSError: return False
    return True
print(json.dumps({
    "uids": status["Uid"].split(), "groups": status["Groups"].split(), "capabilities": int(status["CapEff"], 16),
    "gains none": status["NoNewPrivs"].strip() == "1", "filtered": status["Seccomp"].strip() == "2",
    "first": open("/proc/1/cmdline").read().split("\\0")[:-1],
    "writable": [path for path in ("/x", "/app/x", "/data/x", "/tmp/x") if writable(path)],
    "left": [path for path in ("/src", "/wheels", "/root/.cache", "/app/bin/uv-build") if os.path.exists(path)],
    "tests": glob.glob("/app/lib/**/tests", recursive=True),
}))
"""


def pod(name: str) -> Pod:
    """Return a pod of install.yaml, with the image that was built."""
    text = INSTALL.read_text().replace("image: acker:0.1.0", f"image: {TAG}")
    return pods_of([document for document in yaml.safe_load_all(text) if document])[name]


POD = pod("acker-api")


@pytest.fixture
def container(engine: Engine, image: Built, tmp_path: Path) -> Iterator[Container]:
    with running(engine, POD, KEPT, tmp_path) as container:
        yield container


def post(op: Document) -> Any:
    document = {name: value for name, value in op.items() if name != "op"}
    return httpx.post(f"{URL}{DEFAULT}/{op['op']}", json=document, headers=AS_ADMIN).raise_for_status().json()


def test_it_is_confined_and_holds_nothing_it_was_built_with(container: Container) -> None:
    seen = json.loads(container.run("python", "-c", LOOK_AROUND))
    assert seen.pop("first") == ["/app/bin/python", "/app/bin/acker", "serve"]
    assert seen == {
        "uids": ["65532"] * 4,
        "groups": ["65532"],
        "capabilities": 0,
        "gains none": True,
        "filtered": True,
        "writable": ["/tmp/x"],
        "left": [],
        "tests": [],
    }


def test_it_takes_an_init_and_an_ack_and_tells_of_the_root(container: Container) -> None:
    assert post(init(1, 9, message_id="42")) == {"root_id": "0000000000000001", "state": "pending"}
    assert post(ack(1, 9)) == {"root_id": "0000000000000001", "state": "acked"}
    told = httpx.get(f"{URL}{DEFAULT}/spouts/orders/completions", headers=AS_ADMIN).json()["completions"]
    assert [(one["message_id"], one["outcome"]) for one in told] == [("42", "acked")]


def test_its_probes_and_its_health_check_find_it_well(container: Container, image: Built) -> None:
    how, *command = image.settings["Healthcheck"]["Test"]
    assert (how, container.run(*command)) == ("CMD", "ready")
    assert len(POD.probes) == 3
    assert [kind for kind, probe in POD.probes.items() if not passes(probe, container)] == []


def test_it_does_not_serve_everybody_unless_told_to(engine: Engine, image: Built) -> None:
    with pytest.raises(AssertionError, match=r"ended with 2\n.*others reach 0\.0\.0\.0 and could use the acker"):
        engine.podman("run", "--rm", "--network=none", "--no-healthcheck", TAG)


def test_told_to_stop_it_ends_its_streams_and_finishes_what_is_in_flight(container: Container) -> None:
    body = json.dumps({"ops": [init(2, 9, spout_task="late"), ack(2, 9)]}).encode()
    with (
        contextlib.closing(connection()) as streaming,
        contextlib.closing(connection()) as sending,
    ):
        post(init(3, 9, spout_task="streamed"))
        stream = begin_to_stream(streaming)
        post(ack(3, 9))
        assert first_event(stream)["outcome"] == "acked"
        begin_to_send(sending, body)
        assert answers("/livez")  # so what was sent before has been taken up
        container.terminate()
        assert stream.read().count(b"event: completion") == 0  # to its proper end
        eventually_true(lambda: not answers("/livez"))
        sending.send(body[10:])
        answer = sending.getresponse()
        assert (answer.status, json.loads(answer.read())["results"]) == (200, ["pending", "acked"])
        assert container.ended() == 0


def begin_to_stream(streaming: http.client.HTTPConnection) -> http.client.HTTPResponse:
    streaming.request(
        "GET", f"{DEFAULT}/spouts/streamed/completions", headers=AS_ADMIN | {"Accept": "text/event-stream"}
    )
    return streaming.getresponse()


def first_event(stream: http.client.HTTPResponse) -> Document:
    """Read up to the first completion, and to the end of its event."""
    data = b""
    while (line := stream.readline()) != b"\n" or not data:
        assert line, "the stream ended"
        data = line.removeprefix(b"data: ") if line.startswith(b"data: {") else data
    return dict(json.loads(data))


def begin_to_send(sending: http.client.HTTPConnection, body: bytes) -> None:
    """Send the head of a batch and the first ten bytes of its body."""
    sending.putrequest("POST", f"{DEFAULT}/batch")
    sending.putheader("Content-Type", "application/json")
    sending.putheader("Authorization", AS_ADMIN["Authorization"])
    sending.putheader("Content-Length", str(len(body)))
    sending.endheaders(body[:10])


def test_without_its_store_it_lives_and_is_not_ready(engine: Engine, image: Built, tmp_path: Path) -> None:
    with running(engine, POD, NOWHERE, tmp_path, ready=False):
        assert answers("/livez")
        assert not answers("/readyz")


def test_a_worker_of_the_chart_gets_ready(engine: Engine, image: Built, tmp_path: Path) -> None:
    with running(engine, pod("acker-worker"), KEPT, tmp_path) as container:
        container.terminate()
        assert container.ended() == 0


def test_two_builds_give_the_same_bytes(engine: Engine, image: Built) -> None:
    assert build(engine, "localhost/acker:again") == image


def test_nothing_that_a_failed_build_began_goes_on(engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text("ARG PYTHON_IMAGE\nFROM ${PYTHON_IMAGE}\nRUN sleep 98765 & exit 1\n")
    with pytest.raises(AssertionError, match="exit status 1"):
        build(engine, "localhost/acker:failed", f"--file={file}")
    # what a build began is killed with it, and the kernel may take a moment to end it
    eventually_true(lambda: "sleep 98765" not in commands())


def commands() -> str:
    """Every process of this machine."""
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
