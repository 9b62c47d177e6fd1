"""The checks themselves are any good: each fault planted here is found by one of them."""

import copy
from collections.abc import Callable

import kubernetes_validate
import pytest
import yaml

from tests.deploy.chart import CASES, Chart, container, one
from tests.deploy.lint import lint
from tests.deploy.manifests import Object, load


def _c(deployment: Object) -> Object:
    found: Object = deployment["spec"]["template"]["spec"]["containers"][0]
    return found


def _pod(deployment: Object) -> Object:
    found: Object = deployment["spec"]["template"]["spec"]
    return found


FAULTS: dict[str, Callable[[Object], object]] = {
    "unknown field": lambda d: _c(d).update(livenessProb={}),
    "wrong type": lambda d: d["spec"].update(replicas="3"),
    "required field gone": lambda d: d["spec"].pop("selector"),
    "kind misspelt": lambda d: d.update(kind="Deploymnet"),
    "apiVersion gone by": lambda d: d.update(apiVersion="apps/v1beta2"),
    "bad enum": lambda d: _c(d).update(imagePullPolicy="Sometimes"),
    "selector misses template": lambda d: d["spec"]["selector"]["matchLabels"].update(a="b"),
    "variable twice": lambda d: _c(d)["env"].append(dict(_c(d)["env"][0])),
    "variable no text": lambda d: _c(d)["env"].append({"name": "A", "value": 1}),
    "bad quantity": lambda d: _c(d)["resources"]["limits"].update(memory="512MB"),
    "port name too long": lambda d: _c(d)["ports"][0].update(name="a-very-long-port-name"),
    "upper-case name": lambda d: d["metadata"].update(name="Acker"),
    "mount without volume": lambda d: _c(d)["volumeMounts"].append({"name": "x", "mountPath": "/x"}),
    "mounted twice": lambda d: _c(d)["volumeMounts"].append({"name": "tmp", "mountPath": "/tmp"}),
    "probe on no port": lambda d: _c(d)["readinessProbe"]["httpGet"].update(port="htp"),
    "probe without handler": lambda d: _c(d)["readinessProbe"].pop("httpGet"),
    "liveness wants two": lambda d: _c(d)["livenessProbe"].update(successThreshold=2),
    "preStop longer than grace": lambda d: _pod(d).update(terminationGracePeriodSeconds=5),
    "two preStop handlers": lambda d: _c(d)["lifecycle"]["preStop"].update(exec={"command": ["x"]}),
    "privileged": lambda d: _c(d)["securityContext"].update(privileged=True),
    "escalation": lambda d: _c(d)["securityContext"].pop("allowPrivilegeEscalation"),
    "capabilities": lambda d: _c(d)["securityContext"].pop("capabilities"),
    "root": lambda d: _pod(d)["securityContext"].update(runAsUser=0),
    "maybe root": lambda d: _pod(d)["securityContext"].pop("runAsNonRoot"),
    "no seccomp": lambda d: _pod(d)["securityContext"].pop("seccompProfile"),
    "writable root": lambda d: _c(d)["securityContext"].pop("readOnlyRootFilesystem"),
    "token mounted": lambda d: _pod(d).pop("automountServiceAccountToken"),
    "host network": lambda d: _pod(d).update(hostNetwork=True),
    "host path": lambda d: _pod(d)["volumes"].append({"name": "h", "hostPath": {"path": "/"}}),
    "image not pinned": lambda d: _c(d).update(image="acker:latest"),
    "no memory asked for": lambda d: _c(d)["resources"]["requests"].pop("memory"),
    "autoscaled and fixed": lambda d: d["spec"].update(replicas=2),
    "label too long": lambda d: d["metadata"]["labels"].update(x="y" * 64),
    "annotation no text": lambda d: d["metadata"].update(annotations={"a": 1}),
    "bad sizeLimit": lambda d: _pod(d)["volumes"][0]["emptyDir"].update(sizeLimit="64MB"),
    "bad spread": lambda d: _pod(d)["topologySpreadConstraints"][0].update(whenUnsatisfiable="Never"),
}  # fmt: skip


def _labels(some: Object) -> Object:
    found: Object = (some["spec"].get("selector") or some["spec"]["podSelector"])["matchLabels"]
    return found


def _let_out(policy: Object, cidr: str, *without: str) -> None:
    policy["spec"]["egress"].append({"to": [{"ipBlock": {"cidr": cidr, "except": list(without)}}]})


AMONG: dict[str, tuple[str, str, Callable[[Object], object]]] = {
    "service selects nothing": ("Service", "acker", lambda o: o["spec"]["selector"].update(a="b")),
    "service on no port": ("Service", "acker", lambda o: o["spec"]["ports"][0].update(targetPort="htp")),
    "budget selects nothing": ("PodDisruptionBudget", "acker-api", lambda o: _labels(o).update(a="b")),
    "budget says both": ("PodDisruptionBudget", "acker-api", lambda o: o["spec"].update(minAvailable=1)),
    "policy selects nothing": ("NetworkPolicy", "acker-worker", lambda o: _labels(o).update(a="b")),
    "hole outside its wall": ("NetworkPolicy", "acker-api", lambda o: _let_out(o, "10.0.0.0/8", "11.0.0.0/16")),
    "no network": ("NetworkPolicy", "acker-api", lambda o: _let_out(o, "10.0.0.1/8")),
    "ingress to nobody": ("Ingress", "acker", lambda o: _backend(o).update(name="akcer")),
    "ingress to no port": ("Ingress", "acker", lambda o: _backend(o)["port"].update(name="htp")),
    "route to a closed port": ("HTTPRoute", "acker", lambda o: o["spec"]["rules"][0]["backendRefs"][0].update(port=80)),
    "autoscaler of nobody": ("HorizontalPodAutoscaler", "acker-api", lambda o: _target(o).update(name="x")),
    "least over most": ("HorizontalPodAutoscaler", "acker-api", lambda o: o["spec"].update(minReplicas=99)),
    "scaled to nothing": ("ScaledObject", "acker-worker", lambda o: o["spec"].update(minReplicaCount=0)),
    "monitor of nobody": ("PodMonitor", "acker", lambda o: _labels(o).update(a="b")),
    "data no text": ("ConfigMap", "acker-dashboard", lambda o: o["data"].update(a=1)),
}  # fmt: skip


def _target(scaler: Object) -> Object:
    found: Object = scaler["spec"]["scaleTargetRef"]
    return found


def _backend(ingress: Object) -> Object:
    found: Object = ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    return found


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_a_deployment_is_found(chart: Chart, name: str) -> None:
    objects = copy.deepcopy(chart.objects(*CASES["full"]))
    deployment = one(objects, "Deployment", "acker-api")
    assert container(deployment)["lifecycle"]
    FAULTS[name](deployment)
    assert [*_schema_faults(deployment), *_lint_faults(objects)]


@pytest.mark.parametrize("name", AMONG)
def test_a_fault_among_objects_is_found(chart: Chart, name: str) -> None:
    objects = copy.deepcopy(chart.objects(*CASES["full"]))
    kind, of, plant = AMONG[name]
    plant(one(objects, kind, of))
    assert list(lint(objects))


def test_an_object_rendered_twice_is_found(chart: Chart) -> None:
    objects = chart.objects(*CASES["full"])
    assert any("rendered 2 times" in fault for fault in lint([*objects, objects[0]]))


def test_a_key_that_is_there_twice_is_found() -> None:
    with pytest.raises(yaml.constructor.ConstructorError, match="there 2 times"):
        load("a: 1\nb: {c: 1, c: 2}\n")


def _schema_faults(some: Object) -> list[str]:
    try:
        kubernetes_validate.validate(some, "1.37", strict=True)
    except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as fault:
        return [str(fault)]
    return []


def _lint_faults(objects: list[Object]) -> list[str]:
    try:
        return list(lint(objects))
    except (KeyError, TypeError):  # what has lost its shape the schemas find
        return []
