"""The names and labels that Kubernetes accepts."""

import re
from collections import Counter
from collections.abc import Iterator

from tests.deploy.manifests import Object, title

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
SERVICE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


def misnamed(objects: list[Object]) -> Iterator[str]:
    """Tell names that are bad or there twice, labels and annotations that are no text."""
    ids = Counter((some.get("apiVersion"), title(some), some["metadata"].get("namespace")) for some in objects)
    yield from (f"{who}: rendered {times} times" for (_, who, _), times in ids.items() if times > 1)
    for some in objects:
        yield from (f"{title(some)}: {fault}" for fault in _faults(some))


def _faults(some: Object) -> Iterator[str]:
    metadata = some["metadata"]
    name = metadata["name"]
    form, most = (SERVICE, 63) if some["kind"] == "Service" else (SUBDOMAIN, 63 if some["kind"] == "Pod" else 253)
    if not form.fullmatch(name) or len(name) > most:
        yield "bad name"
    for key, value in (metadata.get("labels") or {}).items():
        if not isinstance(value, str) or len(value) > 63 or not LABEL.fullmatch(value):
            yield f"bad label {key}={value!r}"
    for key, value in (metadata.get("annotations") or {}).items():
        if not isinstance(value, str):
            yield f"annotation {key} is no text"
    if some["kind"] in {"ConfigMap", "Secret"}:
        for key, value in {**(some.get("data") or {}), **(some.get("stringData") or {})}.items():
            if not isinstance(value, str):
                yield f"data {key} is no text"
