"""What selectors match: the pods of Services, workloads and policies."""

from collections.abc import Iterator

from tests.deploy.manifests import WORKLOADS, Object, matches, pods, title


def unselected(objects: list[Object]) -> Iterator[str]:
    """Tell selectors that miss their own pods, take those of others, or take none."""
    for some in objects:
        if some["kind"] in WORKLOADS - {"Job"}:
            yield from (f"{title(some)}: {fault}" for fault in _workload(some, objects))
        elif some["kind"] == "Service" and some["spec"].get("selector"):
            yield from (f"{title(some)}: {fault}" for fault in _service(some, objects))
        elif some["kind"] in {"PodDisruptionBudget", "NetworkPolicy", "PodMonitor"}:
            yield from (f"{title(some)}: {fault}" for fault in _policy(some, objects))


def _workload(some: Object, objects: list[Object]) -> Iterator[str]:
    selector = some["spec"].get("selector", {}).get("matchLabels", {})
    if not selector or not matches(selector, some["spec"]["template"]["metadata"].get("labels")):
        yield "selector does not match its own template"
    for other, metadata, _ in pods(objects):
        if other is not some and matches(selector, metadata.get("labels")):
            yield f"selector also matches {title(other)}"


def _service(some: Object, objects: list[Object]) -> Iterator[str]:
    hit = [made for made in pods(objects) if matches(some["spec"]["selector"], made[1].get("labels"))]
    if not hit:
        yield "selects no pod"
    for port in some["spec"].get("ports", []):
        target = port.get("targetPort", port["port"])
        for owner, _, spec in hit:
            names = {known.get("name") for inner in spec["containers"] for known in inner.get("ports", [])}
            if isinstance(target, str) and target not in names:
                yield f"targetPort {target} is not on {title(owner)}"


def _policy(some: Object, objects: list[Object]) -> Iterator[str]:
    spec = some["spec"]
    selector = (spec.get("selector") or spec.get("podSelector") or {}).get("matchLabels")
    if selector and not any(matches(selector, metadata.get("labels")) for _, metadata, _ in pods(objects)):
        yield "selects no pod"
    if some["kind"] == "PodDisruptionBudget" and {"minAvailable", "maxUnavailable"} <= spec.keys():
        yield "minAvailable and maxUnavailable exclude each other"
