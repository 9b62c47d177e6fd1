"""Fetches jars with Maven, which keeps them, and gives the paths for Java."""

import os
import shutil
import subprocess
from pathlib import Path

CLASSPATH_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"


class NoJars(Exception):
    """Java or Maven is missing, or Maven could not fetch the jars."""


def find_classpath(pom: Path, *, name: str, **properties: str) -> str:
    """Let Maven find the jars of a POM, once for each ``name``; give their paths. Raises `NoJars`.

    ``properties`` are the POM's; their names have ``_`` for ``.``.
    """
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise NoJars(f"{program} is not installed here (Debian: apt-get install openjdk-17-jre-headless maven)")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "acker-maven"
    kept = cache / f"classpath-{name}"
    if kept.exists() and all(Path(jar).exists() for jar in kept.read_text().split(os.pathsep)):
        return kept.read_text()
    cache.mkdir(parents=True, exist_ok=True)
    output = cache / f"classpath-{os.getpid()}"
    given = [f"-D{key.replace('_', '.')}={value}" for key, value in properties.items()]
    options = ["--quiet", "--batch-mode", "--file", str(pom), f"-Dmdep.outputFile={output}"]
    command = ["mvn", *options, *given, CLASSPATH_PLUGIN]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise NoJars(f"Maven could not fetch the jars of {name}: {ended.stdout[-1000:]}{ended.stderr[-1000:]}")
    output.replace(kept)
    return kept.read_text()
