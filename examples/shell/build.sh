#!/bin/sh
# A build whose steps start steps: one tree, however many there are. It needs an acker: `acker serve`.
set -eu

fetch() { echo "fetched sources"; }

compile() {  # starts a step for each target; each of them is a step of this one
    for target in kernel shell; do
        acker run --component compile --key "$target" -- sh "$0" one "$target" &
    done
    wait
    echo "linked kernel shell"
}

one() {
    echo "compiled $1"
    acker run --component test -- echo "tested $1"
}

all() {
    acker run --component fetch -- sh "$0" fetch
    acker run --component compile -- sh "$0" compile
}

if [ $# -gt 0 ]; then  # a step
    "$@"
    exit
fi

ACKER_ANCHORS=$(acker emit --message-id "build-$$" --message-timeout 600)  # the root, with one edge
export ACKER_ANCHORS
acker run --component build -- sh "$0" all &
acker join "$ACKER_ANCHORS" --wait 600  # beside the run: it tells of a failure at once, and its exit code is the script's
