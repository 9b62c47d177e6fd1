"""Who is let in and out, and how far calls travel."""

import pytest
from acker_service.delivery.workers import GRACE_S as DELIVERY_GRACE_S
from acker_service.signals import GRACE_S

from tests.deploy.chart import CASES, Chart, environment, one
from tests.deploy.manifests import Object

PRIVATE = {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "127.0.0.0/8", "100.64.0.0/10"}


ZONES = [("1.30", None), ("1.31", "PreferClose"), ("1.33", "PreferClose"), ("1.34", "PreferSameZone")]


@pytest.mark.parametrize(("version", "means"), ZONES)
def test_calls_stay_in_their_zone_by_the_word_of_the_time(chart: Chart, version: str, means: str | None) -> None:
    objects = chart.objects(*CASES["plain"], sets=("service.keepInZone=true",), flags=("--kube-version", version))
    assert one(objects, "Service", "acker")["spec"].get("trafficDistribution") == means


def _rules(policy: Object, direction: str) -> list[Object]:
    return list(policy["spec"][direction])


def test_webhooks_reach_no_private_network_but_those_allowed(chart: Chart) -> None:
    policy = one(chart.objects(*CASES["full"]), "NetworkPolicy", "acker-worker")
    blocks = [peer["ipBlock"] for rule in _rules(policy, "egress") for peer in rule.get("to", []) if "ipBlock" in peer]
    public = next(block for block in blocks if block["cidr"] == "0.0.0.0/0")
    assert set(public["except"]) >= PRIVATE
    assert {"10.9.0.0/16", "192.168.7.0/24"} <= {block["cidr"] for block in blocks}


def test_the_api_reaches_only_names_and_the_store(chart: Chart) -> None:
    policy = one(chart.objects(*CASES["full"]), "NetworkPolicy", "acker-api")
    ports = {port["port"] for rule in _rules(policy, "egress") for port in rule["ports"]}
    assert ports == {53, 6379}


@pytest.mark.parametrize(("roles", "callers"), [("split", ["api", "worker"]), ("all", ["api"])])
def test_the_store_to_try_it_is_reached_by_the_pods_of_the_release_alone(
    chart: Chart, roles: str, callers: list[str]
) -> None:
    objects = chart.objects(*CASES["try"], sets=("networkPolicy.enabled=true", f"roles={roles}"))
    policy = one(objects, "NetworkPolicy", "acker-valkey")
    (rule,) = _rules(policy, "ingress")
    labels = [peer["podSelector"]["matchLabels"] for peer in rule["from"]]
    assert policy["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "dev-valkey"
    assert [each["app.kubernetes.io/component"] for each in labels] == callers
    assert {each["app.kubernetes.io/instance"] for each in labels} == {"acker"}


def test_where_one_deployment_does_both_it_may_deliver(chart: Chart) -> None:
    policy = one(chart.objects(*CASES["together"]), "NetworkPolicy", "acker-api")
    assert any(port["port"] == 443 for rule in _rules(policy, "egress") for port in rule["ports"])


def test_the_test_is_let_in_whoever_else_is(chart: Chart) -> None:
    policy = one(chart.objects(*CASES["full"]), "NetworkPolicy", "acker-api")
    callers = _rules(policy, "ingress")[0]["from"]
    chosen = [peer.get("podSelector", {}).get("matchLabels", {}) for peer in callers]
    assert any(labels.get("app.kubernetes.io/component") == "test" for labels in chosen)
    assert {"namespaceSelector": {"matchLabels": {"acker-clients": "yes"}}} in callers


def test_the_grace_period_covers_what_the_service_may_take(chart: Chart) -> None:
    """What the refusals reckon with: ten seconds for requests, five for deliveries, five to spare."""
    assert GRACE_S + DELIVERY_GRACE_S + 5 == 20
    for name in ("acker-api", "acker-worker"):
        workload = one(chart.objects(*CASES["plain"]), "Deployment", name)
        spec = workload["spec"]["template"]["spec"]
        nap = spec["containers"][0].get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        drain = (
            float(environment(workload)["ACKER_SHUTDOWN_DRAIN_S"]) if name == "acker-api" else 0
        )  # a worker has none
        assert spec["terminationGracePeriodSeconds"] >= nap + drain + 20


def test_no_probe_that_restarts_asks_the_store(chart: Chart) -> None:
    for case in CASES.values():
        for some in chart.objects(*case):
            if some["kind"] == "Deployment":
                (container,) = some["spec"]["template"]["spec"]["containers"]
                assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
                assert container["startupProbe"]["httpGet"]["path"] == "/livez"
                assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
                assert container["readinessProbe"]["successThreshold"] > 1
