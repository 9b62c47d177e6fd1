"""Ingresses and network policies: the Services behind them, the networks that they name."""

import ipaddress
from collections.abc import Iterator

from tests.deploy.manifests import Object, title


def leading_nowhere(objects: list[Object]) -> Iterator[str]:
    """Tell backends that are not there, and networks that are none."""
    services = {some["metadata"]["name"]: some for some in objects if some["kind"] == "Service"}
    for some in objects:
        if some["kind"] in {"Ingress", "HTTPRoute"}:
            yield from (f"{title(some)}: {fault}" for fault in _backends(some, services))
        if some["kind"] == "NetworkPolicy":
            yield from (f"{title(some)}: {fault}" for fault in _networks(some["spec"]))


def _backends(some: Object, services: dict[str, Object]) -> Iterator[str]:
    for name, port in _named(some):
        ports = services.get(name, {}).get("spec", {}).get("ports", [])
        if name not in services:
            yield f"no such Service {name}"
        elif port not in {known for one in ports for known in (one["port"], one.get("name"))}:
            yield f"Service {name} has no port {port}"


def _named(some: Object) -> Iterator[tuple[str, object]]:
    for rule in some["spec"].get("rules", []):
        for path in rule.get("http", {}).get("paths", []):
            service = path["backend"]["service"]
            yield service["name"], service["port"].get("name", service["port"].get("number"))
        for backend in rule.get("backendRefs", []):
            yield backend["name"], backend["port"]


def _networks(spec: Object) -> Iterator[str]:
    for rule in [*spec.get("ingress", []), *spec.get("egress", [])]:
        for peer in [*rule.get("from", []), *rule.get("to", [])]:
            try:
                yield from _block(peer.get("ipBlock"))
            except ValueError as fault:
                yield str(fault)


def _block(block: Object | None) -> Iterator[str]:
    if block is None:
        return
    network = ipaddress.ip_network(block["cidr"])
    for inner in map(ipaddress.ip_network, block.get("except", [])):
        if inner.version != network.version or not inner.subnet_of(network):  # type: ignore[arg-type]
            yield f"except {inner} is not inside {network}"
