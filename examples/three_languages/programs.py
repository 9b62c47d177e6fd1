"""Builds the programs that are not in Python, and says how each is started. Raises `NotBuilt`."""

import shutil
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
NEEDED = {
    "make": "make",
    "node": "nodejs",
    "npm": "npm",
    "go": "golang",
    "javac": "openjdk-17-jdk-headless",
    "mvn": "maven",
}
"""Programs, and the packages of Debian that hold them."""

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"
CLASSPATH = FOLDER / "invoice/target/classpath"


class NotBuilt(Exception):
    """A program is missing that the others are built with, or one of them could not be built."""


def build(folder: Path) -> dict[str, list[str]]:
    """Build all, what is compiled by Go into a folder, and return the command of each."""
    missing = [package for name, package in NEEDED.items() if shutil.which(name) is None]
    if missing:
        raise NotBuilt(f"{', '.join(missing)} is not installed here (Debian: apt-get install {' '.join(missing)})")
    _run("make", "--silent", "client/typescript/node_modules/.package-lock.json")
    _run("npm", "run", "--silent", "build", "--prefix", "client/typescript")
    _run("npm", "ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(FOLDER / "node"))
    _run("go", "build", "-C", str(FOLDER / "stock"), "-o", str(folder / "stock"), ".")
    pom = ["--quiet", "--batch-mode", "--file", str(FOLDER / "pom.xml"), "--projects", "invoice", "--also-make"]
    _run("mvn", *pom, "compile", PLUGIN, "-Dmdep.outputFile=target/classpath", "-Dmdep.includeScope=runtime")
    classes = f"{FOLDER}/invoice/target/classes:{CLASSPATH.read_text().strip()}"
    return {
        "done": ["node", str(FOLDER / "node/done.mjs")],
        "price": ["node", str(FOLDER / "node/price.mjs")],
        "stock": [str(folder / "stock")],
        "invoice": ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classes, "Invoice"],
    }


def _run(*command: str) -> None:
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise NotBuilt(f"{' '.join(command)} ended with {ran.returncode}: {ran.stdout[-2000:]}{ran.stderr[-2000:]}")
