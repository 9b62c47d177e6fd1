"""Reads manifests as Kubernetes does, but takes no key that is there twice."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import yaml

Object = dict[str, Any]
WORKLOADS = {"Deployment", "StatefulSet", "DaemonSet", "Job", "ReplicaSet"}


class _Strict(yaml.SafeLoader):
    """YAML 1.1, with an error for a key that is there twice."""


def _mapping(loader: _Strict, node: yaml.MappingNode, *, deep: bool = False) -> Any:
    keys = [loader.construct_object(key, deep=True) for key, _ in node.value]
    for key, times in Counter(map(str, keys)).items():
        if times > 1:
            raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is there {times} times", node.start_mark)
    return loader.construct_mapping(node, deep)


_Strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load(text: str) -> list[Object]:
    """Return the objects of a stream of documents."""
    return [document for document in yaml.load_all(text, _Strict) if document]


def pod(some: Object) -> tuple[Object, Object] | None:
    """Return metadata and spec of the pods that an object makes; None if it makes none."""
    if some["kind"] == "Pod":
        return some.get("metadata", {}), some["spec"]
    if some["kind"] in WORKLOADS:
        template = some["spec"]["template"]
        return template.get("metadata", {}), template["spec"]
    return None


def pods(objects: list[Object]) -> Iterator[tuple[Object, Object, Object]]:
    """Yield every object that makes pods, with their metadata and spec."""
    for some in objects:
        if made := pod(some):
            yield some, *made


def title(some: Object) -> str:
    """Name an object in a report."""
    return f"{some['kind']}/{some['metadata']['name']}"


def matches(selector: Object | None, labels: Object | None) -> bool:
    """Return whether labels are selected."""
    return all((labels or {}).get(key) == value for key, value in (selector or {}).items())
