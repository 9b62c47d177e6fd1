"""Knows the line to the acker: operations go out in packed requests, each sent again with its key until answered.

While Redis applies one request the next is written here: a large batch goes out in smaller ones, beside each other.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from acker_client.config import SystemClock
from acker_client.lowlevel import (
    ClientConfig,
    Driver,
    Endpoint,
    OperationResult,
    RetrySession,
    deliver,
    requests,
)
from acker_protocol.errors import Conflict, UnknownRoot
from acker_protocol.ids import format_id
from acker_protocol.operations import NOT_ADMITTED, Init, OperationState

from acker_spark.errors import NoRoom
from acker_spark.topology import Topology, learn

if TYPE_CHECKING:
    import httpx
    from acker_client.lowlevel import Flow
    from acker_protocol.operations import Operation

    from acker_spark.options import Options


PART, AT_ONCE = 2_500, 2
"""So many operations go in a request where there are more, and so many requests are on their way at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a line has of the world: a transport of httpx (None: its own), a clock and a sleep, both in seconds."""

    transport: "httpx.BaseTransport | None" = None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep


class _Clock(SystemClock):
    """The system's clock, with the time of a world."""

    def __init__(self, world: World) -> None:
        self.monotonic = world.clock


class Line:
    """The line from a driver to one topology, for any number of threads."""

    def __init__(self, options: "Options", *, retry_for: float, world: World) -> None:
        config = ClientConfig(
            retry_timeout=retry_for,
            emit_timeout=retry_for,
            startup_timeout=None,
            clock=_Clock(world),
        )
        endpoint = Endpoint(url=options.url, api_key=options.token, transport=world.transport)
        self.exchange = RetrySession(topology=options.topology, config=config, address=options.url)
        self._options = options
        self._driver = Driver(endpoint.client_factory(config), sleep=world.sleep)

    def topology(self) -> Topology:
        """Ask for the topology, which is made if it is not there. Raises `UnfitTopology`."""
        return self._driver.run(learn(self.exchange, self._options))

    def send(self, messages: Sequence["Operation"]) -> "list[OperationResult]":
        """Apply operations and give their answers, in order; those that find no place wait for one.

        Only the first `PART` are applied in order: of more than these none may depend on another. Raises `NoRoom` for
        an ack or a fail that found no place, up to the end of its time.
        """
        if len(messages) <= PART:
            return self._placed(messages) if messages else []
        parts = [messages[at : at + PART] for at in range(0, len(messages), PART)]
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="acker-line") as pool:
            return [answer for answers in pool.map(self._placed, parts) for answer in answers]

    def root_is_known(self, root_id: int) -> bool:
        """Whether the acker knows of a root, be it early, pending or finished."""
        return self._driver.run(_is_known(self.exchange, root_id))

    def post_to(self, url: str, secret: str) -> None:
        """Have the completions of the spout task posted to a webhook. Raises the `Problem` that refuses it."""
        request = requests.set_webhook(self.exchange.topology, self._options.spout_task, url=url, secret=secret)
        self._driver.run(self.exchange.send(request))

    def _placed(self, messages: Sequence["Operation"]) -> "list[OperationResult]":
        try:
            answers = self._driver.run(deliver(self.exchange, messages))
        except Conflict as fault:
            if len(messages) > 1 or fault.code != OperationState.CONFLICT:
                raise
            return [
                OperationResult(operation=messages[0], state=OperationState.CONFLICT)
            ]  # alone it is raised, among others a word
        _refuse_lost(answers)
        return answers

    def close(self) -> None:
        """Close the connections."""
        self._driver.close()


def _refuse_lost(answers: Sequence[OperationResult]) -> None:
    for answer in answers:
        if answer.state in NOT_ADMITTED and not isinstance(answer.operation, Init):
            raise NoRoom(
                f"the store is full, or the topology has as many roots without their init as it may: an operation on "
                f"root {answer.operation.root_id:016x} was refused, up to the end of its time. Nothing is lost: when "
                "the query is started again it runs this batch again"
            )


def _is_known(exchange: RetrySession, root_id: int) -> "Flow[bool]":
    try:
        yield from exchange.send(requests.read_root(exchange.topology, format_id(root_id)))
    except UnknownRoot:
        return False
    return True
