"""The Pod Security Standard `restricted`, and the rules that this project adds to it."""

from collections.abc import Iterator

from tests.deploy.manifests import Object


def unrestricted(where: str, spec: Object, container: Object) -> Iterator[str]:
    """Tell what a namespace that enforces the standard would refuse."""
    own, shared = container.get("securityContext") or {}, spec.get("securityContext") or {}
    faults = (*_host(spec, container), *_rights(own), *_user(own, shared), *_house(spec, own))
    yield from (f"{where}: {fault}" for fault in faults)


def _host(spec: Object, container: Object) -> Iterator[str]:
    if any(spec.get(space) for space in ("hostNetwork", "hostPID", "hostIPC")):
        yield "namespaces of the host"
    if any(port.get("hostPort") for port in container.get("ports", [])):
        yield "port of the host"
    if any("hostPath" in volume for volume in spec.get("volumes", [])):
        yield "folder of the host"


def _rights(own: Object) -> Iterator[str]:
    capabilities = own.get("capabilities") or {}
    if own.get("privileged"):
        yield "privileged"
    if own.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation must be false"
    if "ALL" not in capabilities.get("drop", []) or set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
        yield "capabilities"


def _user(own: Object, shared: Object) -> Iterator[str]:
    if not own.get("runAsNonRoot", shared.get("runAsNonRoot")):
        yield "runAsNonRoot"
    if own.get("runAsUser", shared.get("runAsUser")) == 0:
        yield "runAsUser 0"
    if (own.get("seccompProfile") or shared.get("seccompProfile") or {}).get("type") not in {
        "RuntimeDefault",
        "Localhost",
    }:
        yield "seccompProfile"


def _house(spec: Object, own: Object) -> Iterator[str]:
    if not own.get("readOnlyRootFilesystem"):
        yield "the root file system is writable"
    if spec.get("automountServiceAccountToken") is not False:
        yield "the token of a service account is mounted"
