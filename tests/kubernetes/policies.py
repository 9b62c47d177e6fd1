"""Enforces NetworkPolicies by rules of nftables on each node, as a cluster's network plugin does.

Every pod's traffic passes the forward hook of its node, since pods hang on routes, or the input hook where it goes to
the node itself, as to an API server that is there. Services are resolved before both, so rules see pods. What a node
itself sends to its pods, such as probes, passes neither and is let through, as Kubernetes wants it. What selects by
anything else than matchLabels is refused with an error: no rule would be written for it.
"""

import ipaddress
import json
from collections.abc import Iterator
from typing import Any

from tests.deploy.manifests import matches
from tests.kubernetes.cluster import Cluster

TABLE = "acker_policies"
Object = dict[str, Any]


def enforce(cluster: Cluster) -> None:
    """Let the nodes enforce the policies of now on the pods of now; ask again after either has changed."""
    found = cluster.kubectl("get", "networkpolicies,pods,namespaces", "--all-namespaces", "--output", "json")
    kinds: dict[str, list[Object]] = {"NetworkPolicy": [], "Pod": [], "Namespace": []}
    for each in json.loads(found)["items"]:
        kinds[each["kind"]].append(each)
    rules = ruleset(kinds["NetworkPolicy"], kinds["Pod"], kinds["Namespace"])
    for running in cluster.nodes:
        running.inside("sh", "-c", 'printf %s "$1" | nft -f -', "sh", rules)


def ruleset(policies: list[Object], pods: list[Object], namespaces: list[Object]) -> str:
    """Return the rules, which replace those of before."""
    known = _Known(pods, namespaces)
    chains, ways, out = [], [], []
    for number, pod in enumerate(known.pods):
        for direction, own, other in (("Ingress", "daddr", "saddr"), ("Egress", "saddr", "daddr")):
            applied = [policy for policy in policies if _applies(policy, pod, direction)]
            if not applied:
                continue
            name = f"{direction.lower()}_{number}"
            rules = [line for policy in applied for line in _rules(policy, pod, direction, other, known)]
            chains.append(f"chain {name} {{ {' '.join(f'{rule} return;' for rule in rules)} drop; }}")
            ways.append(f"ip {own} {_address(pod)} jump {name}")
            if direction == "Egress":
                out.append(ways[-1])
    # What may come in returns, and is asked next whether it may go out. Of a connection, its first packet is asked.
    hooks = "".join(
        f"chain {hook} {{\ntype filter hook {hook} priority 0; policy accept; ct state established,related accept;\n"
        + "".join(f"{way}\n" for way in asked)
        + "}\n"
        for hook, asked in (("forward", ways), ("input", out))
    )
    body = "\n".join([*chains, hooks])
    return f"table ip {TABLE} {{}}\ndelete table ip {TABLE}\ntable ip {TABLE} {{\n{body}\n}}\n"


class _Known:
    """The pods that have an address of their own, and the labels of their namespaces."""

    def __init__(self, pods: list[Object], namespaces: list[Object]) -> None:
        self.pods = [pod for pod in pods if pod["status"].get("podIP") and not pod["spec"].get("hostNetwork")]
        self._labels = {each["metadata"]["name"]: each["metadata"].get("labels", {}) for each in namespaces}

    def chosen(self, peer: Object, namespace: str) -> list[Object]:
        """Return the pods that a peer of a policy in a namespace selects."""
        return [pod for pod in self.pods if self._is_chosen(pod, peer, namespace)]

    def _is_chosen(self, pod: Object, peer: Object, namespace: str) -> bool:
        where = pod["metadata"]["namespace"]
        if "namespaceSelector" in peer:
            there = matches(_labels(peer["namespaceSelector"]), self._labels[where])
        else:
            there = where == namespace
        return there and matches(_labels(peer.get("podSelector")), pod["metadata"].get("labels"))


def _labels(selector: Object | None) -> Object:
    selector = selector or {}
    if unknown := selector.keys() - {"matchLabels"}:
        raise NotImplementedError(
            f"a NetworkPolicy selects by {', '.join(unknown)}; policies.py knows matchLabels alone"
        )
    labels: Object = selector.get("matchLabels") or {}
    return labels


def _applies(policy: Object, pod: Object, direction: str) -> bool:
    spec = policy["spec"]
    here = policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
    return (
        here
        and direction in spec["policyTypes"]
        and matches(_labels(spec["podSelector"]), pod["metadata"].get("labels"))
    )


def _rules(policy: Object, pod: Object, direction: str, other: str, known: _Known) -> Iterator[str]:
    """Yield what the rules of a policy let through, for one pod that it applies to."""
    for rule in policy["spec"].get(direction.lower()) or []:
        peers = rule.get("from" if direction == "Ingress" else "to")
        for place, targets in _places(peers, policy["metadata"]["namespace"], other, known):
            # A port's name is that of the pod which is called.
            for port in _ports(rule.get("ports"), [pod] if direction == "Ingress" else targets):
                yield f"{place} {port}".strip()


def _places(
    peers: list[Object] | None, namespace: str, other: str, known: _Known
) -> Iterator[tuple[str, list[Object]]]:
    """Yield a match of addresses, and the pods that have them, for each peer; without peers everything matches."""
    for peer in peers or [{"ipBlock": {"cidr": "0.0.0.0/0"}}]:
        if block := peer.get("ipBlock"):
            if ipaddress.ip_network(block["cidr"]).version == 4:
                without = ", ".join(block.get("except") or [])
                yield f"ip {other} {block['cidr']}" + (f" ip {other} != {{ {without} }}" if without else ""), []
        elif chosen := known.chosen(peer, namespace):
            yield f"ip {other} {{ {', '.join(map(_address, chosen))} }}", chosen


def _ports(ports: list[Object] | None, targets: list[Object]) -> Iterator[str]:
    """Yield a match for each port; without ports everything matches."""
    if not ports:
        yield ""
    for port in ports or []:
        protocol = port.get("protocol", "TCP").lower()
        for number in _numbers(port["port"], targets) if "port" in port else ["1-65535"]:
            yield f"{protocol} dport {number}"


def _numbers(port: int | str, targets: list[Object]) -> Iterator[int]:
    if isinstance(port, int):
        yield port
        return
    containers = [container for pod in targets for container in pod["spec"]["containers"]]
    named = {
        each["containerPort"]
        for container in containers
        for each in container.get("ports", [])
        if each.get("name") == port
    }
    yield from sorted(named)


def _address(pod: Object) -> str:
    return str(pod["status"]["podIP"])
