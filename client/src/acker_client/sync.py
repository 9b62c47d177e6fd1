"""Knows how to perform the flows of an acker in the calling thread."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Self, Unpack

import httpx

from acker_client import anchoring, batching, connection, exchange, flows, hand, mailbox, roots, terms, tuples
from acker_client.completions import Done, Handler, tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """Performs flows: sends their calls and makes their pauses."""

    http: httpx.Client
    sleep: Callable[[float], object]

    def run(self, flow: exchange.Flow[exchange.T]) -> exchange.T:
        """Perform a flow to its end and give its result; what it raises comes through."""
        try:
            step = next(flow)
            while True:
                step = flow.send(self._perform(step))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # StopIteration is not generic

    def _perform(self, step: exchange.Step) -> exchange.Performed:
        if isinstance(step, exchange.Pause):
            self.sleep(step.seconds)
            return None
        try:
            return connection.reply(self.http.send(connection.request(self.http, step)))
        except httpx.TransportError as error:
            return connection.lost(error)


class Options(terms.Options, total=False):
    """The further arguments of an `Acker`: those of `Terms`, an httpx transport, a sleep."""

    transport: httpx.BaseTransport | None
    sleep: Callable[[float], object]


class Acker(hand.Hand):
    """The acker at ``url``, for one topology and any number of threads; ``api_key`` goes along as bearer token.

    Close it, or use it as a context manager. ::

        with Acker("http://127.0.0.1:8700", topology="orders") as acker:
            with acker.execute(headers, component="split") as tuple_:
                queue.send(word, headers=tuple_.anchor("0").headers())
    """

    def __init__(
        self, url: str, topology: str = "default", api_key: str | None = None, **options: Unpack[Options]
    ) -> None:
        transport, sleep = options.pop("transport", None), options.pop("sleep", time.sleep)
        agreed = terms.agree(options)
        super().__init__(topology, agreed)
        http = httpx.Client(transport=transport, **connection.options(url, api_key=api_key, terms=agreed))
        self._driver = Driver(http=http, sleep=sleep)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Nothing is left to send: a batch goes out when its block is left."""
        self._driver.http.close()

    def spout(self, name: str, *, shared: bool = False) -> "Spout":
        """Give the spout of this name: this process's own (host and process are added) or, shared, the name as is.

        Share a name between processes that only emit, while a webhook or one process receives.
        """
        return Spout(name=self._spout_task(name, shared=shared), flows=self._flows, driver=self._driver)

    @contextmanager
    def execute(
        self, headers: anchoring.Headers, *, component: str, on_error: flows.OnError = "fail"
    ) -> Iterator[tuples.Tuple]:
        """Take a tuple for a block: acked when the block ends; on an exception failed, or left to be redelivered.

        KeyboardInterrupt and other ends of the program send nothing.
        """
        tuple_ = self._tuple_for(headers, component, on_error)
        try:
            yield tuple_
        except BaseException as error:
            self._driver.run(self._flows.interrupted(tuple_, error, on_error))
            raise
        self._driver.run(self._flows.executed(tuple_))

    def ack(self, tuple_: tuples.Tuple) -> flows.Words:
        """Ack a tuple: one operation per anchor, one word each; none where a batch gathers them."""
        return self._driver.run(self._flows.ack(tuple_))

    def fail(self, tuple_: tuples.Tuple, *, reason: str | None = None) -> flows.Words:
        """Fail every root of a tuple, one word each; none where a batch gathers them."""
        return self._driver.run(self._flows.fail(tuple_, reason=reason))

    def reset_timeout(self, tuple_: tuples.Tuple) -> flows.Words:
        """Give every root of a tuple its message timeout again, one word each; at once, also within a batch."""
        return self._driver.run(self._flows.reset_timeout(tuple_))

    @contextmanager
    def batch(self) -> Iterator[batching.Batch]:
        """Gather all acks, fails and inits of the block, in this thread, and send them together when it ends.

        After an exception too, since each operation was complete; not at an end of the program. Raises `Refused` for
        those not accepted, else as a single call; what was not sent then times out and is replayed.
        """
        try:
            with batching.gathering(self._flows) as batch:
                yield batch
        except Exception:
            self._driver.run(self._flows.flush(batch))
            raise
        self._driver.run(self._flows.flush(batch))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spout:
    """Emits roots under the name of one spout task, and reads what became of them."""

    name: str
    flows: flows.Flows
    driver: Driver

    @contextmanager
    def emit(self, **emission: Unpack[roots.Emission]) -> Iterator[roots.Root]:
        """Emit a root: anchor one child per consumer in the block; the init goes when the block ends well.

        A refused init is sent again until its time is over, then the refusal is raised (`MaxSpoutPending`,
        `MailboxFull`, `StoreFull`); `Unreachable` if its fate stays unknown. An exception inside: no init.
        """
        with closing(self.flows.begin(self.name, emission)) as root:
            yield root
        self.driver.run(self.flows.emitted(root))

    def completions(self, **reading: Unpack[mailbox.Reading]) -> Iterator[Done]:
        """Read completions; one is released only after the loop body for it ended without an exception.

        Asking for the next says that the body has ended, so read anew after an exception, not on. A page is released
        as a whole: where the loop is left in its midst, all of it is told again.
        """
        box = self.flows.mailbox(self.name, reading)
        while box.open:
            yield from self.driver.run(box.read())
            self.driver.run(box.release())

    def run(
        self, *, on_ack: Handler | None = None, on_fail: Handler | None = None, **reading: Unpack[mailbox.Reading]
    ) -> None:
        """Tell the handlers the message id of every completion; a timeout counts as a failure, as in Storm."""
        for done in self.completions(**reading):
            tell(done, on_ack=on_ack, on_fail=on_fail)
