"""Takes one root from its init to its completion, as a spout and a bolt would; exits 0 if all of it was told."""

import json
import os
import secrets
import socket
import ssl
import sys
import time
import urllib.error
import urllib.request

URL, TOPOLOGY, KEY = os.environ["URL"], os.environ["TOPOLOGY"], os.environ.get("KEY", "").strip()
PATIENCE_S = float(os.environ.get("PATIENCE_S", "60"))
CERTIFICATE = os.environ.get("CERTIFICATE")
"""The file of the one certificate that is believed, whatever name it is for; none: those that the system knows."""

REPLICAS = [tuple(each.split("=")) for each in os.environ.get("REPLICAS", "").split()]
"""Names that have an address for each replica that is ready, and how many replicas there are at least."""


def trust():
    """Make a context of TLS that believes the acker's certificate."""
    context = ssl.create_default_context(cafile=CERTIFICATE)
    if CERTIFICATE:
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def ask(method, path, body=None, **headers):
    """Call the acker, and return the JSON of its answer."""
    headers |= {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {KEY}"} if KEY else {})
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data=data, headers=headers, method=method)  # noqa: S310 - our Service
    with urllib.request.urlopen(request, timeout=30, context=trust()) as answer:  # noqa: S310
        return json.load(answer)


def wait_until_it_ticks():
    """Wait for a replica that is ready, and for a worker that lets time pass."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            ready = ask("GET", "/readyz")
        except (OSError, ValueError) as fault:
            ready = {"status": str(fault)}
        if ready.get("ticking"):
            return
        if time.monotonic() > until:
            sys.exit(f"not ready, or no worker lets time pass: {ready}")
        time.sleep(1)


def wait_until_all_are_ready():
    """Wait until all replicas are ready: one that finds no node is missing, though the others answer."""
    until = time.monotonic() + PATIENCE_S
    for name, wanted in REPLICAS:
        while (ready := count_addresses(name)) < int(wanted):
            if time.monotonic() > until:
                sys.exit(
                    f"{name}: {ready} of {wanted} replicas are ready; "
                    "`kubectl get pods` shows the others, `kubectl describe pod` why they are not"
                )
            time.sleep(1)


def count_addresses(name):
    """Count the addresses of a name; none if it is not known."""
    try:
        return len({found[4][0] for found in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)})
    except socket.gaierror:
        return 0


def write(path, body):
    """Call the acker again, with one key, while its store is away or its replicas have not caught up yet."""
    key, until = secrets.token_hex(8), time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask("POST", path, body, **{"Idempotency-Key": key})
        except urllib.error.HTTPError as refused:
            if refused.code != 503 or time.monotonic() > until:
                raise
            time.sleep(1)


def take_a_root_round():
    """Init, ack, and read the completion; what was read is released."""
    topology, (root, edge) = f"/v1/topologies/{TOPOLOGY}", (secrets.token_hex(8), secrets.token_hex(8))
    mailbox = f"{topology}/spouts/helm-test/completions"
    begun = write(f"{topology}/init", {"root_id": root, "spout_task": "helm-test", "edges": [edge]})
    ended = write(f"{topology}/ack", {"root_id": root, "edge_id": edge})
    after, outcome = "", None
    until = time.monotonic() + PATIENCE_S
    while outcome is None and time.monotonic() < until:
        page = ask("GET", f"{mailbox}?wait_ms=5000{after}")
        outcome = next((told["outcome"] for told in page["completions"] if told["root_id"] == root), None)
        after = f"&after={page['cursor']}"
    if (begun["state"], ended["state"], outcome) != ("pending", "acked", "acked"):
        sys.exit(f"root {root}: init {begun}, ack {ended}, completion {outcome}")
    ask("POST", f"{mailbox}/release", {"cursor": page["cursor"]})
    return root


if __name__ == "__main__":
    if os.environ.get("KEYS_ASKED_FOR") and not KEY:
        sys.exit("this acker asks for keys: name a Secret with one of scope spout in test.existingSecret")
    try:
        wait_until_it_ticks()
        wait_until_all_are_ready()
        print(f"root {take_a_root_round()} was acked, and its completion read")  # noqa: T201
    except urllib.error.HTTPError as refused:
        sys.exit(f"{refused.url}: {refused.code} {refused.read().decode()}")
