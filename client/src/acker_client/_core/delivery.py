"""Applies operations: writes them in frozen requests, and those that were refused again in new ones."""

from typing import TYPE_CHECKING

from acker_protocol.errors import known
from acker_protocol.operations import NOT_ADMITTED, REFUSED, Init, Operation

from acker_client._core import requests, responses
from acker_client._core.effects import Flow, Sleep
from acker_client._core.requests import OperationResult
from acker_client.errors import BatchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from acker_client._core.requests import Request
    from acker_client._core.retry import RetrySession
    from acker_client.config import ClientConfig

SHORTEST_PAUSE_S = 0.001
"""What has less time left is not sent again."""

Sent = tuple[list[OperationResult], float]
"""The results of some operations, and for how many seconds the service asks to wait."""


def deliver(session: "RetrySession", operations: "Sequence[Operation]") -> Flow[list[OperationResult]]:
    """Send operations, and those that were not admitted again until they are or their time is over.

    The last attempt is made when it is over, and none where the service asks to wait for longer. Of several, those with
    less time are sent with the others while they have some. The results come in the order of the operations; those that
    stay refused are among them.
    """
    clock = session.config.clock
    since = clock.monotonic()
    delays = session.config.backoff_delays()
    written = requests.write_operations(session.topology, operations)
    results, asked_s = yield from _send(session, written)
    while left := _retryable(results, session.config, age_s=clock.monotonic() - since, asked_s=asked_s):
        yield Sleep(seconds=max(min(next(delays), max(left.values())), asked_s))
        written = rewrite_refused(session.topology, written, [results[index].operation for index in left])
        newer, asked_s = yield from _send(session, written)
        for index, result in zip(left, newer, strict=True):
            results[index] = result
    return results


def rewrite_refused(topology: str, refused: "Sequence[Request]", operations: "Sequence[Operation]") -> "list[Request]":
    """Write operations again that were refused.

    An ack or a fail that was alone in its request is sent with the same key: the service does not remember what it
    refused so, and does not apply it twice. All others need a new key: under the old one it would repeat its refusal.
    """
    [*kept] = refused
    alone = len(kept) == 1 and len(kept[0].operations) == 1 and not isinstance(operations[0], Init)
    return kept if alone else requests.write_operations(topology, operations)


def raise_if_refused(result: OperationResult) -> None:
    """Raise the error of an operation that was refused in a request of its own."""
    if result.state in REFUSED:
        raise known()[result.state](f"the {_described(result.operation)} was refused until its time was over")


def raise_if_any_refused(results: "Iterable[OperationResult]") -> None:
    """Raise `BatchError` if any operation of a batch was refused."""
    refused = [result for result in results if result.state in REFUSED]
    if refused:
        raise BatchError(refused)


def _send(session: "RetrySession", written: "Sequence[Request]") -> Flow[Sent]:
    results: list[OperationResult] = []
    asked_s = 0.0
    for request in written:
        response = yield from session.send(request)
        results += responses.read_results(request, response)
        asked_s = max(asked_s, responses.retry_after_s(response))
    return results, asked_s


def _retryable(
    results: "Sequence[OperationResult]", config: "ClientConfig", *, age_s: float, asked_s: float
) -> dict[int, float]:
    """Return, by index, the seconds left of each operation that was not admitted and may be sent again."""
    left = {
        index: _limit_s(result.operation, config) - age_s
        for index, result in enumerate(results)
        if result.state in NOT_ADMITTED
    }
    return {index: left_s for index, left_s in left.items() if left_s >= max(asked_s, SHORTEST_PAUSE_S)}


def _limit_s(operation: Operation, config: "ClientConfig") -> float:
    if not isinstance(operation, Init):
        return config.retry_timeout
    if not operation.message_timeout_ms:
        return config.emit_timeout
    return min(config.emit_timeout, operation.message_timeout_ms / 1000)


def _described(operation: Operation) -> str:
    if isinstance(operation, Init):
        return f"init of message id {operation.message_id!r}"
    return f"{type(operation).__name__.lower()} of root {operation.root_id:016x}"
