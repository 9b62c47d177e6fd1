"""Makes an image like that of Spark: the same paths, the same Java; but on Debian, which has python3.11."""

import shutil
from pathlib import Path

import pyspark

from tests.image.engine import Engine
from tests.image.stand_in import bootstrap, commit

SUITE = "bookworm"
NAME = "localhost/spark-stand-in"
PACKAGES = ("openjdk-17-jre-headless", "procps", "python3")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def make_spark_stand_in(engine: Engine) -> None:
    """Put the image NAME into the engine's storage, with the Spark that these tests have (a minute)."""
    root = engine.folder / "spark-root"
    bootstrap(engine, root, SUITE, *PACKAGES)
    _lay_out_spark(root / "opt/spark")
    with (root / "etc/passwd").open("a") as users, (root / "etc/group").open("a") as groups:
        users.write("spark:x:185:185::/nonexistent:/usr/sbin/nologin\n")
        groups.write("spark:x:185:\n")
    settings = ("--env=SPARK_HOME=/opt/spark", "--workingdir=/opt/spark/work-dir", "--user=spark")
    commit(engine, root, NAME, f"--env=PATH={_PATH}", *settings)


def _lay_out_spark(home: Path) -> None:
    """What PySpark's wheel holds, where Spark has it."""
    wheel = Path(pyspark.__file__).parent
    for name in ("bin", "sbin", "jars"):
        shutil.copytree(wheel / name, home / name)
    shutil.copytree(wheel / "python/lib", home / "python/lib")
    ours = shutil.ignore_patterns("bin", "sbin", "jars", "python", "data", "examples", "licenses", "__pycache__")
    shutil.copytree(wheel, home / "python/pyspark", ignore=ours)
    (home / "work-dir").mkdir()
