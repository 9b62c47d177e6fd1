"""Names the packages that Acker needs, and asks for their known vulnerabilities: `make sbom`, `make audit`.

``sbom`` writes `dist/acker.cdx.json`, a bill of materials in CycloneDX, from requirements.lock. ``audit`` does that,
too, asks pip-audit about each package, and keeps in the results how many it could say something about: a registry
without data on vulnerabilities says nothing, and pip-audit has no data of its own that it could ask offline. It exits
with 1 if a vulnerability is known.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from docs.trust import results

TOOLS = results.ROOT / ".venv/dependencies/bin"
LOCK = results.ROOT / "requirements.lock"
BILL = results.ROOT / "dist/acker.cdx.json"


def write_bill(to: Path = BILL) -> int:
    """Write the bill of materials; return how many packages it names."""
    to.parent.mkdir(exist_ok=True)
    project = str(results.ROOT / "service/pyproject.toml")
    options = ("--pyproject", project, "--output-reproducible", "--of", "JSON", "-o", str(to))
    subprocess.run([TOOLS / "cyclonedx-py", "requirements", LOCK, *options], check=True, stderr=subprocess.DEVNULL)
    return len(json.loads(to.read_text(encoding="utf-8"))["components"])


def ask() -> dict[str, Any]:
    """Ask about each package: how many are known, and the vulnerabilities of these."""
    command: list[str | Path] = [
        TOOLS / "pip-audit",
        "--requirement",
        LOCK,
        "--no-deps",
        "--disable-pip",
        "--progress-spinner",
        "off",
    ]
    ended = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, check=False)
    try:
        packages = json.loads(ended.stdout)["dependencies"]
    except ValueError:
        last = [line for line in ended.stderr.splitlines() if line.strip()][-1:]
        return {"known": 0, "vulnerabilities": [], "error": last[0][:200] if last else "pip-audit said nothing"}
    return judged(packages)


def judged(packages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how many of these packages something is known about, and what."""
    known = [package for package in packages if "skip_reason" not in package]
    found = [f"{package['name']} {package['version']}: {each['id']}" for package in known for each in package["vulns"]]
    return {"known": len(known), "vulnerabilities": found, "error": None}


def main() -> int:
    """Do what is asked for, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m docs.trust.dependencies", description=__doc__)
    parser.add_argument("what", choices=("sbom", "audit"))
    run = results.Run(command="make audit")
    wanted, packages = parser.parse_args().what, write_bill()
    sys.stdout.write(f"{BILL.relative_to(results.ROOT)} names {packages} packages\n")
    if wanted == "sbom":
        return 0
    audit = ask()
    for found in audit["vulnerabilities"]:
        sys.stdout.write(f"{found}\n")
    sys.stdout.write(audit["error"] or f"{audit['known']} of {packages} are known to the registry that was asked\n")
    results.keep("dependencies", run.document(), {"packages": packages, "audit": audit})
    return 1 if audit["vulnerabilities"] else 0


if __name__ == "__main__":
    sys.exit(main())
