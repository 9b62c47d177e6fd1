"""The chart, and the values it is rendered with."""

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.deploy.manifests import load
from tests.deploy.tools import Tools

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm/acker"
EXAMPLES = DEPLOY / "examples"
OWN = Path(__file__).parent / "values"

LATEST = ("--kube-version", "1.37")
"""Each Helm takes another version for granted if there is no cluster to ask."""

CASES: dict[str, tuple[Path, ...]] = {
    "try": (OWN / "try.yaml",),
    "plain": (OWN / "plain.yaml",),
    "together": (OWN / "together.yaml",),
    "full": (OWN / "full.yaml",),
    "one-node": (EXAMPLES / "one-node.yaml",),
    "install": (DEPLOY / "install-values.yaml",),
    "production": (EXAMPLES / "production.yaml",),
    "watched": (EXAMPLES / "production.yaml", EXAMPLES / "monitoring.yaml"),
    "valkey-cluster": (EXAMPLES / "production.yaml", EXAMPLES / "valkey-cluster/values.yaml"),
    "managed-redis": (EXAMPLES / "production.yaml", EXAMPLES / "managed-redis.yaml"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Renders it as release ``acker`` in namespace ``acks``."""

    tools: Tools
    release: str = "acker"

    def text(self, *values: Path, sets: tuple[str, ...] = (), flags: tuple[str, ...] = (), helm: str = "helm") -> str:
        """Return what Helm writes; an error of Helm fails the test."""
        ran = self._run(helm, values, sets, flags)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def objects(self, *values: Path, sets: tuple[str, ...] = (), flags: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        """Return it as objects."""
        return load(self.text(*values, sets=sets, flags=flags))

    def refusal(self, *values: Path, sets: tuple[str, ...] = (), helm: str = "helm") -> str:
        """Return why Helm refuses to render."""
        ran = self._run(helm, values, sets, ())
        assert ran.returncode != 0, f"not refused: {sets}"
        return re.sub(r"\s+", " ", ran.stderr)

    def _run(self, helm: str, values: tuple[Path, ...], sets: tuple[str, ...], flags: tuple[str, ...]) -> Any:
        named = [option for path in values for option in ("-f", path)]
        said = [option for one in sets for option in ("--set-json" if "=[" in one or "={" in one else "--set", one)]
        return _ran(self.tools, helm, ("template", self.release, CHART, "-n", "acks", *LATEST, *named, *said, *flags))


@functools.cache
def _ran(tools: Tools, program: str, arguments: tuple[str | Path, ...]) -> Any:
    """Remember what was rendered: the same is asked of it in many ways."""
    return tools.run(program, *arguments)


def one(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """Return the object of a kind and name."""
    (found,) = [some for some in objects if some["kind"] == kind and some["metadata"]["name"] == name]
    return found


def container(workload: dict[str, Any]) -> dict[str, Any]:
    """Return the container of a workload."""
    (found,) = workload["spec"]["template"]["spec"]["containers"]
    return dict(found)


def environment(workload: dict[str, Any]) -> dict[str, Any]:
    """Return what a workload's variables are, by name: text, or where it comes from."""
    return {
        variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in container(workload)["env"]
    }
