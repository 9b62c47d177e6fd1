"""The enums of Kubernetes, which its OpenAPI does not list."""

from collections.abc import Iterator
from typing import Any

from tests.deploy.manifests import Object, title

WORDS = {
    "imagePullPolicy": {"Always", "IfNotPresent", "Never"},
    "restartPolicy": {"Always", "OnFailure", "Never"},
    "protocol": {"TCP", "UDP", "SCTP"},
    "whenUnsatisfiable": {"DoNotSchedule", "ScheduleAnyway"},
    "unhealthyPodEvictionPolicy": {"IfHealthyBudget", "AlwaysAllow"},
    "pathType": {"Exact", "Prefix", "ImplementationSpecific"},
    "trafficDistribution": {"PreferClose", "PreferSameZone", "PreferSameNode"},
    "dnsPolicy": {"ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"},
    "terminationMessagePolicy": {"File", "FallbackToLogsOnError"},
}


def misspelt(objects: list[Object]) -> Iterator[str]:
    """Tell words that Kubernetes's own kinds do not know."""
    for some in objects:
        group = some["apiVersion"].partition("/")[0]
        if "." not in group or group.endswith(".k8s.io"):
            yield from (f"{title(some)}: {fault}" for fault in _within(some.get("spec"), "spec"))


def _within(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, str) and inner not in WORDS.get(key, {inner}):
                yield f"{path}.{key}: {inner!r} is none of {sorted(WORDS[key])}"
            yield from _within(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _within(inner, f"{path}[{index}]")
