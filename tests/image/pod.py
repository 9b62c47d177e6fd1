"""Reads what the chart gives a container of the service, out of deploy/install.yaml, and says it to podman."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from acker_service.keys_file import entry

INSTALL = Path(__file__).parents[2] / "deploy" / "install.yaml"
KEY = "acker_for-this-test-alone"
SECRETS = {"acker-redis": {"url": "redis://127.0.0.1:6379/0"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod as the chart describes it, with the one container it has."""

    spec: dict[str, Any]

    @property
    def container(self) -> dict[str, Any]:
        (only,) = self.spec["containers"]
        return dict(only)

    @property
    def args(self) -> list[str]:
        return list(self.container["args"])

    @property
    def grace_s(self) -> int:
        """How long it may take to end."""
        return int(self.spec["terminationGracePeriodSeconds"])

    @property
    def probes(self) -> dict[str, str]:
        """The paths that are asked, by the kind of probe."""
        kinds = ("startup", "liveness", "readiness")
        return {kind: self.container[f"{kind}Probe"]["httpGet"]["path"] for kind in kinds}

    def options(self, folder: Path) -> list[str]:
        """Give the options of podman that come to the same; ``folder`` will hold what is in secrets."""
        return [*self._confined(), *self._environment(), *self._mounts(folder)]

    def _confined(self) -> list[str]:
        user, own = self.spec["securityContext"], self.container["securityContext"]
        assert user["runAsNonRoot"]
        assert user["seccompProfile"] == {"type": "RuntimeDefault"}  # podman's default
        limits = self.container["resources"]["limits"]
        return [
            f"--user={user['runAsUser']}:{user['runAsGroup']}",
            *(f"--cap-drop={name}" for name in own["capabilities"]["drop"]),
            *(["--read-only", "--read-only-tmpfs=false"] if own["readOnlyRootFilesystem"] else []),
            *([] if own["allowPrivilegeEscalation"] else ["--security-opt=no-new-privileges"]),
            f"--memory={limits['memory'].removesuffix('i').lower()}",
        ]

    def _environment(self) -> list[str]:
        return [f"--env={item['name']}={_value(item)}" for item in self.container["env"]]

    def _mounts(self, folder: Path) -> list[str]:
        places = {mount["name"]: mount["mountPath"] for mount in self.container["volumeMounts"]}
        return [_mount(volume, places[volume["name"]], folder) for volume in self.spec["volumes"]]


def pod(name: str) -> Pod:
    """Give the pod of a Deployment."""
    documents = [document for document in yaml.safe_load_all(INSTALL.read_text()) if document]
    (found,) = (one for one in documents if (one["kind"], one["metadata"]["name"]) == ("Deployment", name))
    return Pod(spec=found["spec"]["template"]["spec"])


def _value(item: dict[str, Any]) -> str:
    if "value" in item:
        return str(item["value"])
    reference = item["valueFrom"]["secretKeyRef"]
    return SECRETS[reference["name"]][reference["key"]]


def _mount(volume: dict[str, Any], place: str, folder: Path) -> str:
    """Mount an empty folder in memory, or the secret with the keys."""
    if "emptyDir" in volume:
        size = volume["emptyDir"]["sizeLimit"].removesuffix("i").lower()
        return f"--tmpfs={place}:rw,nosuid,nodev,noexec,mode=1777,size={size}"
    assert volume["secret"]["secretName"] == "acker-keys"
    file = folder / "keys.json"
    file.write_text(json.dumps({"keys": [json.loads(entry("test", KEY, scope="admin", topologies=[]))]}))
    os.chown(file, 0, 65532)
    file.chmod(volume["secret"]["defaultMode"])
    return f"--volume={folder}:{place}:ro"
