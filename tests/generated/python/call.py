"""Calls an acker with the generated client, and gets an error from it: ``call.py URL KEY``."""

import sys

from acker_http_api_client import AuthenticatedClient, Client
from acker_http_api_client.api.completions import get_completions
from acker_http_api_client.api.operations import batch, init
from acker_http_api_client.models import (
    AckInBatch,
    Batch,
    BatchAnswer,
    GetCompletionsResponse200,
    Init,
    InitAnswer,
    Problem,
    ResetTimeoutInBatch,
)

TOPOLOGY, SPOUT_TASK = "default", "python-1"
ROOT, EDGE = "5f2c1e0b9a7d4836", "00f3a19c5be27d40"


def main(url: str, key: str) -> None:
    """Emit a root, ack it in a batch, read its completion, and emit another message under its id."""
    client = AuthenticatedClient(base_url=url, token=key)
    emitted = Init(root_id=ROOT, spout_task=SPOUT_TASK, edges=[EDGE], message_id="42")
    answer = init.sync(TOPOLOGY, client=client, body=emitted, idempotency_key="python-1.42")
    assert isinstance(answer, InitAnswer)
    print("init", answer.state.value)

    refused = init.sync(TOPOLOGY, client=client, body=Init(root_id=ROOT, spout_task="another", edges=[EDGE]))
    assert isinstance(refused, Problem)
    print("error", refused.status, refused.code, str(refused.retryable).lower(), refused.root_id)

    reset, ack = ResetTimeoutInBatch(op="reset-timeout", root_id=ROOT), AckInBatch(op="ack", root_id=ROOT, edge_id=EDGE)
    applied = batch.sync(TOPOLOGY, client=client, body=Batch(ops=[reset, ack]))
    assert isinstance(applied, BatchAnswer)
    print("batch", applied.accepted, *(state.value for state in applied.results))

    read = get_completions.sync(TOPOLOGY, SPOUT_TASK, client=client, wait_ms=5_000)
    assert isinstance(read, GetCompletionsResponse200)
    print("completion", read.completions[0].outcome.value, read.completions[0].message_id)

    denied = init.sync(TOPOLOGY, client=Client(base_url=url), body=emitted)  # type: ignore[arg-type]  # has no key
    assert isinstance(denied, Problem)
    print("error", denied.status, denied.code, str(denied.retryable).lower())


main(*sys.argv[1:])
