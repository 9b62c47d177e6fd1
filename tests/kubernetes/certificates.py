"""Makes the certificates, keys and kubeconfigs of a cluster."""

from pathlib import Path

import trustme
import yaml
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tests.kubernetes import layout
from tests.kubernetes.layout import Node

COMPONENTS = ("kube-controller-manager", "kube-scheduler", "kube-proxy")


def make(run: Path, nodes: list[Node]) -> None:
    """Write everything that the parts of a cluster prove themselves with."""
    folder = layout.keys(run)
    folder.mkdir(mode=0o700)
    authority, front_proxies = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.crt")
    authority.private_key_pem.write_to_path(folder / "ca.key")
    front_proxies.cert_pem.write_to_path(folder / "front-proxy-ca.crt")
    service = ".".join(("kubernetes", "default", "svc", layout.DOMAIN))
    names = [service.rsplit(".", cut)[0] if cut else service for cut in (0, 2, 3, 4)]
    _issue(folder, "apiserver", authority, *names, layout.API_SERVICE, nodes[0].address, "127.0.0.1", user="apiserver")
    _issue(folder, "front-proxy", front_proxies, user="front-proxy")
    _issue(folder, "admin", authority, user="admin", group="system:masters")
    for node in nodes:
        _issue(
            folder, node.name, authority, node.name, node.address, user=f"system:node:{node.name}", group="system:nodes"
        )
    for component in COMPONENTS:
        _issue(folder, component, authority, user=f"system:{component}")
    for caller in ("admin", *COMPONENTS, *(node.name for node in nodes)):
        _write_kubeconfig(run, caller)
    _make_key_of_service_accounts(folder)


def _issue(folder: Path, file: str, authority: trustme.CA, *names: str, user: str, group: str | None = None) -> None:
    # Go refuses a certificate whose list of names is there and empty; that of a caller names its file.
    issued = authority.issue_cert(*(names or [file]), common_name=user, organization_name=group)
    (folder / f"{file}.crt").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(folder / f"{file}.key")


def _write_kubeconfig(run: Path, caller: str) -> None:
    folder = layout.keys(run)
    cluster = {"server": layout.api_server(run), "certificate-authority": str(folder / "ca.crt")}
    user = {"client-certificate": str(folder / f"{caller}.crt"), "client-key": str(folder / f"{caller}.key")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "acker", "cluster": cluster}],
        "users": [{"name": caller, "user": user}],
        "contexts": [{"name": "acker", "context": {"cluster": "acker", "user": caller}}],
        "current-context": "acker",
    }
    (folder / f"{caller}.conf").write_text(yaml.safe_dump(config))


def _make_key_of_service_accounts(folder: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    (folder / "service-accounts.key").write_bytes(private)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "service-accounts.pub").write_bytes(public)
