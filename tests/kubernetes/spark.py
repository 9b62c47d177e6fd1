"""Runs the job of deploy/examples/spark-word-count in a cluster, by spark-submit in cluster mode.

The pods run as the SparkApplication says, but smaller; spark-submit stands in for the operator.
"""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import yaml

from tests.deploy.chart import EXAMPLES
from tests.kubernetes import images, layout
from tests.kubernetes.cluster import Cluster

EXAMPLE = EXAMPLES / "spark-word-count"
APPLICATION: dict[str, Any] = yaml.safe_load((EXAMPLE / "application.yaml").read_text(encoding="utf-8"))["spec"]
ACCOUNT = "spark"
CLAIM = "words"
_SIZES = {
    "spark.executor.instances": "2",
    "spark.driver.memory": "700m",
    "spark.executor.memory": "600m",
    "spark.kubernetes.driver.request.cores": "200m",
    "spark.kubernetes.executor.request.cores": "100m",
    "spark.sql.shuffle.partitions": "2",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The job in a namespace, on a folder of this machine that all its pods mount."""

    cluster: Cluster
    namespace: str
    words: Path

    def prepare(self) -> None:
        """Make the account of its driver, and the volume that the application claims; bring the image to all nodes."""
        archive = images.spark()
        for running in self.cluster.nodes:
            running.inside("ctr", "--namespace", "k8s.io", "images", "import", str(archive))
        self.words.mkdir()
        self.words.chmod(0o777)
        self.cluster.apply(*_account(self.namespace), *_volume(self.namespace, self.words), namespace=self.namespace)

    def submit(self, url: str) -> None:
        """Start it; it goes on until its driver is deleted."""
        settings = {
            "spark.kubernetes.namespace": self.namespace,
            "spark.kubernetes.authenticate.driver.serviceAccountName": ACCOUNT,
            "spark.kubernetes.container.image": APPLICATION["image"],
            "spark.kubernetes.container.image.pullPolicy": "Never",
            "spark.kubernetes.driverEnv.ACKER_URL": url,
            "spark.kubernetes.submission.waitAppCompletion": "false",
        }
        for role in ("driver", "executor"):
            settings |= self._role(role)
        options = [word for each in (_SIZES | settings).items() for word in ("--conf", "=".join(each))]
        where = ("--master", f"k8s://{layout.api_server(self.cluster.run)}", "--deploy-mode", "cluster")
        home = Path(pyspark.__file__).parent
        program = (str(home / "bin/spark-submit"), *where, "--name", "word-count", *options)
        environment = {**self.cluster.environment, "SPARK_HOME": str(home)}
        command = [*program, APPLICATION["mainApplicationFile"], *APPLICATION["arguments"]]
        ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr

    def pods(self, role: str) -> list[dict[str, Any]]:
        """Return the pods of the driver or of the executors that run."""
        found = self.cluster.list("pods", f"spark-role={role}", namespace=self.namespace)
        return [
            pod for pod in found if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]

    def kill(self, role: str) -> None:
        """Delete the driver or one executor, without a grace period."""
        name = self.pods(role)[0]["metadata"]["name"]
        self.cluster.kubectl("--namespace", self.namespace, "delete", "pod", name, "--force", "--grace-period=0")

    def counted(self) -> dict[str, int]:
        """Return how often it has counted each word, over all that it has saved."""
        counts: dict[str, int] = {}
        for path in self.words.glob("counts/batch=*/*.json"):
            for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
                counts[row["word"]] = counts.get(row["word"], 0) + row["count"]
        return counts

    def _role(self, role: str) -> dict[str, str]:
        """Return the settings of the driver or the executors, as the application has them."""
        container = {"name": f"spark-kubernetes-{role}", "securityContext": APPLICATION[role]["securityContext"]}
        template = self.cluster.run / f"{role}.yaml"
        template.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}))
        ((mount,), volume) = APPLICATION[role]["volumeMounts"], f"spark.kubernetes.{role}.volumes.persistentVolumeClaim"
        return {
            f"spark.kubernetes.{role}.podTemplateFile": str(template),
            f"{volume}.{mount['name']}.mount.path": mount["mountPath"],
            f"{volume}.{mount['name']}.options.claimName": CLAIM,
        }


def _account(namespace: str) -> list[dict[str, Any]]:
    """Write the account of the driver, which makes pods, and what it may do."""
    group = "rbac.authorization.k8s.io"
    metadata = {"name": ACCOUNT}
    rule = {
        "apiGroups": [""],
        "resources": ["pods", "services", "configmaps", "persistentvolumeclaims"],
        "verbs": ["*"],
    }
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": ACCOUNT},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
        },
    ]


def _volume(namespace: str, folder: Path) -> list[dict[str, Any]]:
    """Write the claim of the application, and a volume for it: both nodes see the folder, as a shared disk."""
    name, modes, size = f"words-{namespace}", ["ReadWriteMany"], {"storage": "1Gi"}
    spec = {"capacity": size, "accessModes": modes, "hostPath": {"path": str(folder)}, "storageClassName": ""}
    claim = {"accessModes": modes, "resources": {"requests": size}, "storageClassName": "", "volumeName": name}
    return [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": CLAIM}, "spec": claim},
    ]
