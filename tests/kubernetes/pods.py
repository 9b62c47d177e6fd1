"""Pods of a test's own, as Pod Security's level `restricted` admits them."""

from typing import Any

from tests.kubernetes.images import TOOLS

RESTRICTED = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
CONFINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def pod(name: str, *command: str, node: str | None = None, labels: dict[str, str] | None = None) -> dict[str, Any]:
    """Write a pod that runs a command with the tools of `images.TOOLS`, on one node if that is given."""
    container = {"name": name, "image": TOOLS, "imagePullPolicy": "Never", "command": list(command)}
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": 1,
        "securityContext": RESTRICTED,
        "containers": [container | {"securityContext": CONFINED}],
    }
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    metadata = {"name": name, "labels": {"app": name} | (labels or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def service(name: str, port: int) -> dict[str, Any]:
    """Write a Service for the pod of that name."""
    spec = {"selector": {"app": name}, "ports": [{"port": port}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
