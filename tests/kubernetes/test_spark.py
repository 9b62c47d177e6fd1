"""The Spark example in cluster mode: its pods are killed, and every sentence is acked and counts once."""

import json
import secrets
import threading
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest
from acker_protocol import routes

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.releases import LOOK_S, Release, namespace, release
from tests.kubernetes.spark import Job
from tests.support.java import need_java
from tests.support.waiting import eventually_true

WITHIN_S = 900.0
TOPOLOGY, SPOUT = "sentences", "reader"
"""As the job has them."""

SENTENCES = ("the cow jumps over the moon", "an apple a day")
PAUSE_S = 1.0
HOUR_MS = 3_600_000


@pytest.fixture
def made(cluster: Cluster) -> Iterator[Release]:
    """An acker, whose roots wait for a driver that is away."""
    with release(cluster, "loaded") as made:
        made.upgrade("--set", "api.replicas=2,worker.replicas=1")
        document = {"ackers": 2, "message_timeout_ms": HOUR_MS, "dedupe_window_ms": HOUR_MS, "retention_ms": HOUR_MS}
        assert httpx.put(made.url + routes.topology(TOPOLOGY), json=document, trust_env=False).is_success
        yield made


@pytest.fixture
def job(cluster: Cluster) -> Iterator[Job]:
    """The job, not submitted yet."""
    need_java()
    with namespace(cluster) as name:
        job = Job(cluster=cluster, namespace=name, words=cluster.run / f"words-{secrets.token_hex(3)}")
        job.prepare()
        yield job


class Spout:
    """Writes a file with a sentence every second, as long as the block runs."""

    def __init__(self, job: Job) -> None:
        self._folder = job.words / "sentences"
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.written: dict[str, str] = {}

    def __enter__(self) -> "Spout":
        self._folder.mkdir()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._end.wait(PAUSE_S):
            name = str(len(self.written))
            sentence = SENTENCES[len(self.written) % len(SENTENCES)]
            unfinished = self._folder / f".{name}"  # a name that Spark leaves out
            unfinished.write_text(json.dumps({"id": name, "sentence": sentence, "attempt": 1}))
            unfinished.rename(self._folder / f"{name}.json")
            self.written[name] = sentence


class Reader:
    """Reads how the sentences have ended."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.outcomes: dict[str, str] = {}

    def sees_more(self) -> None:
        """Wait until ten more sentences have ended."""
        before = self.read()
        eventually_true(lambda: self.read() >= before + 10, within=WITHIN_S, every=LOOK_S)

    def read(self) -> int:
        """Read the completions that are new, release them, and return how many sentences have ended so far."""
        with httpx.Client(base_url=self._url, trust_env=False, timeout=60) as http:
            completions = http.get(routes.completions(TOPOLOGY, SPOUT)).json()
            if completions.get("completions"):  # before the first root the spout task is unknown
                self.outcomes.update({each["message_id"]: each["outcome"] for each in completions["completions"]})
                released = http.post(routes.release(TOPOLOGY, SPOUT), json={"cursor": completions["cursor"]})
                assert released.is_success, released.text
        return len(self.outcomes)


def test_every_sentence_is_acked_and_counts_once_though_an_executor_and_the_driver_are_killed(
    made: Release, job: Job
) -> None:
    reader = Reader(made.url)
    with Spout(job) as spout:
        job.submit(made.url)
        for killed in ("executor", "driver"):
            reader.sees_more()
            job.kill(killed)
        job.submit(made.url)
        reader.sees_more()
    eventually_true(lambda: reader.read() >= len(spout.written), within=WITHIN_S, every=LOOK_S)
    assert reader.outcomes == dict.fromkeys(spout.written, "acked")
    assert job.counted() == Counter(word for sentence in spout.written.values() for word in sentence.split())
