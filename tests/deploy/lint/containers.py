"""What a container refers to: its ports, volumes, variables, quantities."""

import re
from collections import Counter
from collections.abc import Iterator

from tests.deploy.manifests import Object

PORT = re.compile(r"(?=.*[a-z])[a-z0-9]([a-z0-9-]*[a-z0-9])?")
QUANTITY = re.compile(r"[+-]?(\d+|\d+\.\d*|\.\d+)(n|u|m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei|[eE][+-]?\d+)?")
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
HANDLERS = ("httpGet", "tcpSocket", "exec", "grpc")


def misbuilt(where: str, owner: Object, spec: Object, container: Object) -> Iterator[str]:
    """Tell what a container refers to in vain, or says twice."""
    faults = (
        *_variables(container),
        *_mounts(owner, spec, container),
        *_ports(container),
        *_probes(container),
        *_stopping(spec, container),
        *_resources(spec, container),
        *_image(container.get("image", "")),
    )
    yield from (f"{where}: {fault}" for fault in faults)


def _variables(container: Object) -> Iterator[str]:
    variables = container.get("env", [])
    for name, times in Counter(variable["name"] for variable in variables).items():
        if times > 1:
            yield f"variable {name} is there {times} times (server-side apply refuses that)"
    for variable in variables:
        if "value" in variable and not isinstance(variable["value"], str):
            yield f"variable {variable['name']} is no text"


def _mounts(owner: Object, spec: Object, container: Object) -> Iterator[str]:
    claimed = owner["spec"].get("volumeClaimTemplates", [])
    known = {volume["name"] for volume in spec.get("volumes", [])} | {claim["metadata"]["name"] for claim in claimed}
    mounts = container.get("volumeMounts", [])
    yield from (f"mounts {mount['name']}, which is no volume" for mount in mounts if mount["name"] not in known)
    for path, times in Counter(mount["mountPath"] for mount in mounts).items():
        if times > 1:
            yield f"{path} is mounted {times} times"


def _ports(container: Object) -> Iterator[str]:
    ports = container.get("ports", [])
    for port in ports:
        if (name := port.get("name")) and (len(name) > 15 or not PORT.fullmatch(name)):
            yield f"bad port name {name}"
    for number, times in Counter(port["containerPort"] for port in ports).items():
        if times > 1:
            yield f"port {number} is there {times} times"


def _probes(container: Object) -> Iterator[str]:
    names = {port.get("name") for port in container.get("ports", [])}
    for kind in PROBES:
        probe = container.get(kind) or {}
        ways = [handler for handler in HANDLERS if handler in probe]
        if probe and len(ways) != 1:
            yield f"{kind} needs one handler, and has {ways}"
        for way in ("httpGet", "tcpSocket"):
            port = probe.get(way, {}).get("port")
            if isinstance(port, str) and port not in names:
                yield f"{kind} asks port {port}, which is not there"
    if (container.get("livenessProbe") or {}).get("successThreshold", 1) != 1:
        yield "livenessProbe.successThreshold must be 1"


def _stopping(spec: Object, container: Object) -> Iterator[str]:
    hook = (container.get("lifecycle") or {}).get("preStop") or {}
    if len(hook) > 1:
        yield "preStop needs one handler"
    nap = hook.get("sleep", {}).get("seconds", 0)
    if nap and nap >= spec.get("terminationGracePeriodSeconds", 30):
        yield "preStop sleeps longer than the grace period"


def _resources(spec: Object, container: Object) -> Iterator[str]:
    resources = container.get("resources") or {}
    for part in ("requests", "limits"):
        for name, amount in (resources.get(part) or {}).items():
            if not QUANTITY.fullmatch(str(amount)):
                yield f"{part}.{name} {amount!r} is no quantity"
    if not (resources.get("requests") or {}).get("memory"):
        yield "asks for no memory"
    for volume in spec.get("volumes", []):
        limit = (volume.get("emptyDir") or {}).get("sizeLimit")
        if limit and not QUANTITY.fullmatch(str(limit)):
            yield f"sizeLimit {limit!r} is no quantity"


def _image(image: str) -> Iterator[str]:
    if image.endswith(":latest") or ":" not in image.rsplit("/", 1)[-1]:
        yield f"image {image!r} is not pinned"
