"""Writes the configuration of a node's programs."""

import json
from pathlib import Path
from typing import Any

import yaml

from tests.kubernetes import layout, programs
from tests.kubernetes.layout import Node

SYSCTLS = {
    "vm.overcommit_memory": 1,
    "vm.panic_on_oom": 0,
    "kernel.panic": 10,
    "kernel.panic_on_oops": 1,
    "kernel.keys.root_maxkeys": 1_000_000,
    "kernel.keys.root_maxbytes": 25_000_000,
}
"""What the kubelet would set for the whole machine. It finds files with these values in their place."""

STATE = ("kubelet", "containerd", "cni", "etcd")

# restrict_oom_score_adj: without CAP_SYS_RESOURCE runc cannot lower the score of the pause container, and dies.
_CONTAINERD = """\
version = 2
disabled_plugins = [{disabled}]
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{folder}/cni"
"""
_NO_SNAPSHOTTERS = ("btrfs", "zfs", "devmapper", "aufs")


def write(node: Node) -> None:
    """Write a node's files; its state from an earlier start stays."""
    for name in ("log", "sysctl", "cni", *(f"lib/{each}" for each in STATE)):
        (node.folder / name).mkdir(parents=True, exist_ok=True)
    for name, value in SYSCTLS.items():
        (node.folder / "sysctl" / name).write_text(f"{value}\n")
    (node.folder / "resolv.conf").write_text("")
    (node.folder / "cni/10-pods.conflist").write_text(json.dumps(_pods(node)))
    disabled = ", ".join(f'"io.containerd.snapshotter.v1.{each}"' for each in _NO_SNAPSHOTTERS)
    text = _CONTAINERD.format(disabled=disabled, plugins=programs.plugins(), folder=node.folder)
    (node.folder / "containerd.toml").write_text(text)
    (node.folder / "kubelet.yaml").write_text(yaml.safe_dump(_kubelet(node)))
    (node.folder / "kube-proxy.yaml").write_text(yaml.safe_dump(_kube_proxy(node)))


def _pods(node: Node) -> dict[str, Any]:
    """Return how pods get their addresses: routed by the node, without a bridge and without another address outside."""
    addresses = {"type": "host-local", "ranges": [[{"subnet": node.pods}]], "routes": [{"dst": "0.0.0.0/0"}]}
    plugin = {"type": "ptp", "ipMasq": False, "mtu": 1500, "ipam": addresses}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [plugin]}


def _kubelet(node: Node) -> dict[str, Any]:
    keys = layout.keys(node.run)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(keys / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(keys / f"{node.name}.crt"),
        "tlsPrivateKeyFile": str(keys / f"{node.name}.key"),
        "clusterDNS": [layout.DNS_SERVICE],
        "clusterDomain": layout.DOMAIN,
        "resolvConf": str(node.folder / "resolv.conf"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "volumePluginDir": "/var/lib/kubelet/plugins-exec",
        "makeIPTablesUtilChains": False,
        "maxPods": 60,
        "systemReserved": {"cpu": str(max(layout.machine_cores() - layout.CORES, 0))},
        "evictionHard": {"memory.available": "200Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    }


def _kube_proxy(node: Node) -> dict[str, Any]:
    """Return its configuration; the limits of conntrack, which are the whole machine's, stay."""
    untouched = {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": layout.PODS,
        "hostnameOverride": node.name,
        "clientConnection": {"kubeconfig": str(layout.keys(node.run) / "kube-proxy.conf")},
        "conntrack": untouched,
    }


def commands(node: Node) -> dict[str, list[str]]:
    """Return what a node runs besides the control plane, in the order in which it starts."""
    kubeconfig = layout.keys(node.run) / f"{node.name}.conf"
    place = [f"--hostname-override={node.name}", f"--node-ip={node.address}"]
    zone = f"--node-labels=topology.kubernetes.io/zone={node.zone}"
    kubelet = ["kubelet", f"--config={node.folder}/kubelet.yaml", f"--kubeconfig={kubeconfig}", *place, zone]
    return {
        "containerd": ["containerd", f"--config={node.folder}/containerd.toml", "--log-level=warn"],
        "kubelet": kubelet,
        "kube-proxy": ["kube-proxy", f"--config={node.folder}/kube-proxy.yaml"],
    }


def control_plane(node: Node) -> dict[str, list[str]]:
    """Return the control plane's programs, in the order in which they start."""
    return {
        "etcd": _etcd(),
        "kube-apiserver": _api_server(node.run, node.address),
        "kube-controller-manager": _controllers(layout.keys(node.run)),
        "kube-scheduler": ["kube-scheduler", *_caller(layout.keys(node.run) / "kube-scheduler.conf")],
    }


def _etcd() -> list[str]:
    clients, peers = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
    return [
        *("etcd", "--name=one", "--data-dir=/var/lib/etcd", "--unsafe-no-fsync", "--log-level=warn"),
        *(f"--listen-client-urls={clients}", f"--advertise-client-urls={clients}"),
        *(f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=one={peers}"),
    ]


def _api_server(run: Path, address: str) -> list[str]:
    keys = layout.keys(run)
    return [
        *("kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", f"--advertise-address={address}"),
        *("--secure-port=6443", f"--service-cluster-ip-range={layout.SERVICES}", "--allow-privileged"),
        *("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"),
        *(f"--tls-cert-file={keys}/apiserver.crt", f"--tls-private-key-file={keys}/apiserver.key"),
        f"--client-ca-file={keys}/ca.crt",
        f"--service-account-issuer=https://kubernetes.default.svc.{layout.DOMAIN}",
        f"--service-account-key-file={keys}/service-accounts.pub",
        f"--service-account-signing-key-file={keys}/service-accounts.key",
        *(f"--kubelet-client-certificate={keys}/admin.crt", f"--kubelet-client-key={keys}/admin.key"),
        *(f"--kubelet-certificate-authority={keys}/ca.crt", "--kubelet-preferred-address-types=InternalIP"),
        "--enable-aggregator-routing",
        *(f"--proxy-client-cert-file={keys}/front-proxy.crt", f"--proxy-client-key-file={keys}/front-proxy.key"),
        *(f"--requestheader-client-ca-file={keys}/front-proxy-ca.crt", "--requestheader-allowed-names=front-proxy"),
        *("--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group"),
        "--requestheader-username-headers=X-Remote-User",
    ]


def _controllers(keys: Path) -> list[str]:
    return [
        *("kube-controller-manager", *_caller(keys / "kube-controller-manager.conf")),
        *("--use-service-account-credentials", f"--service-account-private-key-file={keys}/service-accounts.key"),
        *(f"--root-ca-file={keys}/ca.crt", f"--cluster-signing-cert-file={keys}/ca.crt"),
        *(f"--cluster-signing-key-file={keys}/ca.key", "--flex-volume-plugin-dir=/var/lib/kubelet/plugins-exec"),
    ]


def _caller(kubeconfig: Path) -> list[str]:
    """Return the options of a program that is alone in what it does, and that nobody calls from outside its node."""
    asking = [f"--{of}kubeconfig={kubeconfig}" for of in ("", "authentication-", "authorization-")]
    return [*asking, "--leader-elect=false", "--bind-address=127.0.0.1"]
