"""Reads a pod of rendered manifests, and does for it what the kubelet does beside starting containers.

`podman kube play` starts them, with all that the manifest says of confinement, commands and mounts. What is left is
done here: Secrets and ConfigMaps become files and values, an empty folder is one pod's own, probes are asked from
outside.
"""

import copy
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.manifests import Object, pods

Kept = Mapping[tuple[str, str], Mapping[str, str]]
"""What Secrets and ConfigMaps hold, by their kind and name."""

PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod as the chart describes it, called as what makes it; it has one container."""

    name: str
    labels: dict[str, str]
    spec: dict[str, Any]

    @property
    def container(self) -> dict[str, Any]:
        (only,) = self.spec["containers"]
        return dict(only)

    @property
    def probes(self) -> dict[str, dict[str, Any]]:
        """What is asked, by the kind of probe, with the numbers of ports."""
        return {kind: _numbered(self.container[kind], self.ports) for kind in PROBES if kind in self.container}

    @property
    def ports(self) -> dict[str, int]:
        return {port["name"]: port["containerPort"] for port in self.container.get("ports", ())}

    def playable(self, kept: Kept, folder: Path) -> str:
        """Give the manifest that podman gets; what is kept lies as files in ``folder``, for as long as the pod runs."""
        spec = copy.deepcopy(self.spec) | {"restartPolicy": "Never"}
        for container in spec["containers"]:
            self._prepare(container, kept)
        group = spec.get("securityContext", {}).get("fsGroup", 0)
        spec["volumes"] = [self._volume(volume, kept, folder, group) for volume in spec.get("volumes", ())]
        return yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": self.name}, "spec": spec})

    def _prepare(self, container: dict[str, Any], kept: Kept) -> None:
        """Podman would publish the ports on the host, and ask the probes by a curl in the image."""
        for asked_from_outside in ("ports", *PROBES):
            container.pop(asked_from_outside, None)
        container["env"] = [_resolved(variable, kept) for variable in container.get("env", ())]
        container["volumeMounts"] = [
            mount | {"name": self._own(mount["name"])} for mount in container.get("volumeMounts", ())
        ]

    def _own(self, volume: str) -> str:
        """Podman's volumes are known to all pods by their names."""
        return f"{self.name}-{volume}"

    def _volume(self, volume: dict[str, Any], kept: Kept, folder: Path, group: int) -> dict[str, Any]:
        own = {"name": self._own(volume["name"])}
        if "emptyDir" in volume or "hostPath" in volume:
            return volume | own
        place = folder / own["name"]
        if secret := volume.get("secret"):
            _lay_out(kept["Secret", secret["secretName"]], place, mode=secret["defaultMode"], group=group)
        else:
            _lay_out(kept["ConfigMap", volume["configMap"]["name"]], place, mode=0o644, group=group)
        return own | {"hostPath": {"path": str(place), "type": "Directory"}}


def pods_of(objects: list[Object]) -> dict[str, Pod]:
    """Return one pod of each workload, by its name."""
    made = {some["metadata"]["name"]: (metadata, spec) for some, metadata, spec in pods(objects)}
    return {name: Pod(name=name, labels=made[name][0].get("labels", {}), spec=made[name][1]) for name in made}


def kept_by(objects: list[Object]) -> Kept:
    """Return what the Secrets and ConfigMaps among the objects hold, as text."""
    fields = {"Secret": "stringData", "ConfigMap": "data"}
    kinds = [(some["kind"], some) for some in objects if some["kind"] in fields]
    return {(kind, some["metadata"]["name"]): some[fields[kind]] for kind, some in kinds}


def secret(name: str, **contents: str) -> Object:
    """Write a Secret; in the names of its keys a _ stands for a dot."""
    data = {key.replace("_", "."): text for key, text in contents.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def _resolved(variable: dict[str, Any], kept: Kept) -> dict[str, Any]:
    if "valueFrom" not in variable:
        return variable
    reference = variable["valueFrom"]["secretKeyRef"]
    return {"name": variable["name"], "value": kept["Secret", reference["name"]][reference["key"]]}


def _lay_out(contents: Mapping[str, str], place: Path, *, mode: int, group: int) -> None:
    """Write files as a pod finds them: root's, of the group of its folders, which may always read them."""
    place.mkdir()
    for name, text in contents.items():
        (place / name).write_text(text)
        os.chown(place / name, 0, group)
        (place / name).chmod(mode | 0o440)


def _numbered(probe: dict[str, Any], ports: Mapping[str, int]) -> dict[str, Any]:
    how = next(kind for kind in ("httpGet", "tcpSocket", "exec") if kind in probe)
    said = probe[how]
    return {how: said | ({"port": ports.get(said["port"], said["port"])} if "port" in said else {})}
