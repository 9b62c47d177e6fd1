"""What autoscalers scale."""

from collections.abc import Iterator

from tests.deploy.manifests import Object, title


def unscalable(objects: list[Object]) -> Iterator[str]:
    """Tell autoscalers without a target, or with one that counts itself."""
    targets = {(some["kind"], some["metadata"]["name"]): some for some in objects}
    for some in objects:
        if some["kind"] in {"HorizontalPodAutoscaler", "ScaledObject"}:
            yield from (f"{title(some)}: {fault}" for fault in _faults(some["spec"], targets))


def _faults(spec: Object, targets: dict[tuple[str, str], Object]) -> Iterator[str]:
    wanted = spec["scaleTargetRef"]
    target = targets.get((wanted.get("kind", "Deployment"), wanted["name"]))
    if target is None:
        yield f"no such target {wanted['name']}"
    elif "replicas" in target["spec"]:
        yield "its target also says replicas: every upgrade would undo the autoscaler"
    least = spec.get("minReplicas", spec.get("minReplicaCount", 1))
    if least > spec.get("maxReplicas", spec.get("maxReplicaCount", 100)):
        yield "the least are more than the most"
    if least < 1:
        yield "it may scale to nothing"
