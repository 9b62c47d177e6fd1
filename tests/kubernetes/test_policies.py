"""What NetworkPolicies become as rules of nftables."""

from typing import Any

import pytest

from tests.kubernetes.policies import ruleset


def pod(name: str, address: str, namespace: str = "a", **labels: str) -> dict[str, Any]:
    ports = [{"name": "http", "containerPort": 8700}]
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [{"ports": ports}]},
        "status": {"podIP": address},
    }


def policy(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "some", "namespace": "a"},
        "spec": {"podSelector": {"matchLabels": {"app": "api"}}} | spec,
    }


NAMESPACES: list[dict[str, Any]] = [
    {"metadata": {"name": "a"}},
    {"metadata": {"name": "b", "labels": {"clients": "yes"}}},
]
PODS = [pod("api", "10.78.1.2", app="api"), pod("caller", "10.78.2.3", "b", app="caller")]


def test_a_named_port_is_that_of_the_pod_that_is_called() -> None:
    rule = {"ports": [{"port": "http"}], "from": [{"namespaceSelector": {"matchLabels": {"clients": "yes"}}}]}
    rules = ruleset([policy(policyTypes=["Ingress"], ingress=[rule])], PODS, NAMESPACES)
    assert "chain ingress_0 { ip saddr { 10.78.2.3 } tcp dport 8700 return; drop; }" in rules
    assert "ip daddr 10.78.1.2 jump ingress_0" in rules
    assert "egress" not in rules


def test_a_peer_without_a_namespace_selector_is_in_the_policys_own() -> None:
    rule: dict[str, Any] = {"from": [{"podSelector": {}}]}
    rules = ruleset([policy(policyTypes=["Ingress"], ingress=[rule])], PODS, NAMESPACES)
    assert "{ ip saddr { 10.78.1.2 } return; drop; }" in rules


def test_a_block_lets_nothing_through_to_its_exceptions() -> None:
    block = {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}
    rule = {"ports": [{"port": 443, "protocol": "TCP"}], "to": [{"ipBlock": block}, {"ipBlock": {"cidr": "::/0"}}]}
    rules = ruleset([policy(policyTypes=["Egress"], egress=[rule])], PODS, NAMESPACES)
    assert "{ ip daddr 0.0.0.0/0 ip daddr != { 10.0.0.0/8 } tcp dport 443 return; drop; }" in rules


def test_a_peer_that_selects_nobody_lets_nobody_in() -> None:
    rule = {"from": [{"podSelector": {"matchLabels": {"app": "nobody"}}}]}
    rules = ruleset([policy(policyTypes=["Ingress"], ingress=[rule])], PODS, NAMESPACES)
    assert "chain ingress_0 {  drop; }" in rules


def test_a_pod_that_no_policy_selects_is_free() -> None:
    assert "10.78.2.3 jump" not in ruleset([policy(policyTypes=["Ingress", "Egress"])], PODS, NAMESPACES)


def test_a_selector_that_is_not_understood_is_an_error() -> None:
    unknown = policy(policyTypes=["Ingress"], podSelector={"matchExpressions": []})
    with pytest.raises(NotImplementedError, match="matchExpressions"):
        ruleset([unknown], PODS, NAMESPACES)


def test_what_goes_to_the_node_itself_is_asked_too() -> None:
    rules = ruleset([policy(policyTypes=["Ingress", "Egress"])], PODS, NAMESPACES)
    forward, to_node = rules.partition("chain input {")[::2]
    assert "jump ingress_0" in forward
    assert "jump egress_0" in forward
    assert "ip saddr 10.78.1.2 jump egress_0" in to_node
    assert "ingress" not in to_node


def test_what_comes_in_is_asked_whether_it_may_go_out_too() -> None:
    """Both pods may be on one node, whose rules then see the packet once."""
    rules = ruleset([policy(policyTypes=["Ingress", "Egress"], ingress=[{}])], PODS, NAMESPACES)
    assert "chain ingress_0 { ip saddr 0.0.0.0/0 return; drop; }" in rules
    assert "chain egress_0 {  drop; }" in rules
    assert rules.index("jump ingress_0") < rules.index("jump egress_0")
