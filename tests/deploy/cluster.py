"""Answers what Helm asks a cluster while it renders: which kinds there are, and which Deployments run."""

import contextlib
import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Kinds = Mapping[str, Iterable[str]]
"""Kinds by the group and version that have them."""
OWNED = {
    "labels": {"app.kubernetes.io/managed-by": "Helm"},
    "annotations": {"meta.helm.sh/release-name": "acker", "meta.helm.sh/release-namespace": "acks"},
}
NOT_FOUND = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}


@contextlib.contextmanager
def running(deployments: dict[str, int], kinds: Kinds) -> Iterator[str]:
    """Serve a cluster in whose namespace ``acks`` Deployments have so many replicas, and yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(_facts(kinds) | _running(deployments)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _facts(kinds: Kinds) -> dict[str, Any]:
    """Return which kinds there are."""
    groups = [_group(*version.split("/")) for version in kinds if "/" in version]
    return {
        "/version": {"major": "1", "minor": "37", "gitVersion": "v1.37.0"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
    } | {f"/{'apis' if '/' in version else 'api'}/{version}": _list(version, kinds[version]) for version in kinds}


def _group(name: str, version: str) -> dict[str, Any]:
    known = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [known], "preferredVersion": known}


def _list(version: str, kinds: Iterable[str]) -> dict[str, Any]:
    resources = [
        {
            "name": _plural(kind.lower()),
            "singularName": kind.lower(),
            "kind": kind,
            "namespaced": True,
            "verbs": ["get"],
        }
        for kind in kinds
    ]
    return {"kind": "APIResourceList", "groupVersion": version, "resources": resources}


def _plural(word: str) -> str:
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}es" if word.endswith("s") else f"{word}s"


def _running(deployments: dict[str, int]) -> dict[str, Any]:
    return {
        f"/apis/apps/v1/namespaces/acks/deployments/{name}": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "acks"} | OWNED,
            "spec": {"replicas": replicas},
        }
        for name, replicas in deployments.items()
    }


def _handler(facts: dict[str, Any]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = facts.get(self.path.partition("?")[0])
            body = json.dumps(NOT_FOUND if known is None else known).encode()
            self.send_response(404 if known is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the standard library
            """Say nothing."""

    return Handler
