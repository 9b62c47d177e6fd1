"""The image of the Spark example counts words and acks sentences, run as its SparkApplication says."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.image.building import ROOT, build
from tests.image.engine import Engine
from tests.image.kubelet import Pod, kept_by, secret
from tests.image.running import played
from tests.image.spark.stand_in import NAME, make_spark_stand_in
from tests.support.keys import bearer, keys_file
from tests.support.namespaces import Namespace
from tests.support.servers import acker_serve

pytestmark = pytest.mark.timeout(1800)

EXAMPLE = "deploy/examples/spark-word-count"
APPLICATION = yaml.safe_load((ROOT / EXAMPLE / "application.yaml").read_text())["spec"]
SENTENCES = [
    {"id": "1", "sentence": "The cow jumps over the moon", "attempt": 1},
    {"id": "2", "sentence": "An apple a day", "attempt": 1},
    {"id": "3", "sentence": " ", "attempt": 1},
]
COMPLETIONS = "/v1/topologies/sentences/spouts/reader/completions"
SPARK = 185
"""Its user."""


@pytest.fixture(scope="module")
def spark_engine(bare_engine: Engine) -> Engine:
    """An engine with the image that the application names."""
    make_spark_stand_in(bare_engine)
    options = (f"--file={ROOT / EXAMPLE / 'Dockerfile'}", f"--build-arg=SPARK_IMAGE={NAME}")
    build(bare_engine, APPLICATION["image"], *options, ignoring=f"{EXAMPLE}/Dockerfile.dockerignore")
    return bare_engine


def driver(url: str, words: Path) -> Pod:
    """Return the driver that the operator makes of the application, with all of Spark in it, until all is counted."""
    said = APPLICATION["driver"]
    settings = [option for pair in APPLICATION["sparkConf"].items() for option in ("--conf", "=".join(pair))]
    submit = ["/opt/spark/bin/spark-submit", "--master", "local[2]", "--driver-memory", said["memory"], *settings]
    job = [APPLICATION["mainApplicationFile"].removeprefix("local://"), *APPLICATION["arguments"], "--once"]
    container = {
        "name": "spark-kubernetes-driver",
        "image": APPLICATION["image"],
        "imagePullPolicy": APPLICATION["imagePullPolicy"],
        "args": submit + job,
        "env": [one | {"value": url} if one["name"] == "ACKER_URL" else one for one in said["env"]],
        "volumeMounts": said["volumeMounts"],
        "securityContext": said["securityContext"],
    }
    (volume,) = APPLICATION["volumes"]
    claimed = {"name": volume["name"], "hostPath": {"path": str(words), "type": "Directory"}}
    return Pod(name="word-count-driver", labels={}, spec={"containers": [container], "volumes": [claimed]})


@pytest.fixture
def host() -> Iterator[Namespace]:
    """A host for an acker and the driver; sockets of this thread are made on it."""
    made = Namespace(f"acker-spark-{os.getpid()}")
    try:
        with made.inside():
            yield made
    finally:
        made.close()


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """The volume of the application, with sentences in it."""
    words = tmp_path / "words"
    (words / "sentences").mkdir(parents=True)
    (words / "sentences/some.json").write_text("\n".join(map(json.dumps, SENTENCES)))
    os.chown(words, SPARK, SPARK)
    return words


def test_the_image_counts_words_and_tells_of_every_sentence(
    spark_engine: Engine, host: Namespace, words: Path, tmp_path: Path
) -> None:
    kept = kept_by([secret("word-count-acker", key="admin")])
    spark_engine.know({"word-count-driver": "127.0.0.1"})  # as a pod finds itself in its /etc/hosts
    options = ("--data-dir", str(tmp_path / "data"), "--keys-file", str(keys_file(tmp_path, "admin")))
    with acker_serve(tmp_path, *options) as acker:
        with played(spark_engine, driver(acker.url, words), host, kept, tmp_path) as container:
            assert container.ended() == 0, container.log()
        assert counted(words) == {
            "the": 2, "cow": 1, "jumps": 1, "over": 1, "moon": 1, "an": 1, "apple": 1, "a": 1, "day": 1
        }  # fmt: skip
        page = acker.http.get(COMPLETIONS, headers=bearer("admin")).raise_for_status().json()
        told = {(end["message_id"], end["outcome"], end["reason"]) for end in page["completions"]}
        assert told == {("1", "acked", None), ("2", "acked", None), ("3", "failed", "an empty sentence")}


def counted(words: Path) -> dict[str, int]:
    rows = [json.loads(line) for path in words.glob("counts/*/*.json") for line in path.read_text().splitlines()]
    return {row["word"]: row["count"] for row in rows}
