#!/usr/bin/env bash
# Versions: NATS 2.15.2 of the Go module github.com/nats-io/nats-server/v2, and nats-py 2.16.0.
# Behaviour: a message of a JetStream consumer that is answered with nak(delay=1) comes again after 1 s. Where the consumer
# has a backoff, it comes so only before the second step: after later deliveries the server adds to the delay what their
# step is longer than the first one. Without a delay a nak is answered at once, whatever the step.
# Seen:
#   no backoff, nak(delay=1): 1 s, 1 s
#   backoff=[1, 6], nak(delay=1): 1 s, 6 s
#   backoff=[1, 6], nak(): 0 s, 0 s
# Needs python3 with venv, and Go 1.26.
set -euo pipefail

folder=$(mktemp -d)
server=
clean() {
    [[ -z $server ]] || kill "$server" 2>/dev/null || true
    rm -rf "$folder"
}
trap clean EXIT
cd "$folder"
GOBIN=$folder go install github.com/nats-io/nats-server/v2@v2.15.2
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check nats-py==2.16.0
cat >program.py <<'PROGRAM'
import asyncio
import sys
import time

import nats
from nats.js.api import ConsumerConfig


async def look(stream, name, options, **answer):
    await stream.add_stream(name=name, subjects=[name])
    config = ConsumerConfig(durable_name="worker", ack_wait=30, max_deliver=5, **options)
    await stream.add_consumer(name, config)
    await stream.publish(name, b"a")
    pull = await stream.pull_subscribe_bind("worker", name)
    took, [message] = [], await pull.fetch(1)
    for _ in range(2):
        began = time.monotonic()
        await message.nak(**answer)
        [message] = await pull.fetch(1, timeout=20)
        took.append(f"{round(time.monotonic() - began)} s")
    await message.ack_sync()
    return ", ".join(took)


async def main():
    connection = await nats.connect(sys.argv[1])
    stream, steps = connection.jetstream(), {"backoff": [1, 6]}
    print("no backoff, nak(delay=1):", await look(stream, "plain", {}, delay=1))
    print("backoff=[1, 6], nak(delay=1):", await look(stream, "steps", steps, delay=1))
    print("backoff=[1, 6], nak():", await look(stream, "at-once", steps))
    await connection.close()


asyncio.run(main())
PROGRAM
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
./nats-server --addr 127.0.0.1 --port "$port" --jetstream --store_dir "$folder/store" 2>log &
server=$!
for _ in {1..100}; do grep -q 'Server is ready' log && break; sleep 0.1; done
venv/bin/python program.py "nats://127.0.0.1:$port" | tee seen
diff - seen <<'SEEN'
no backoff, nak(delay=1): 1 s, 1 s
backoff=[1, 6], nak(delay=1): 1 s, 6 s
backoff=[1, 6], nak(): 0 s, 0 s
SEEN
