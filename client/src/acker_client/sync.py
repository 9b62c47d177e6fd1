"""Knows the verbs of an acker for a program of threads."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self, Unpack

from acker_client import anchoring, batching, connection, flows, hand, terms, tuples
from acker_client.thread_driver import Driver
from acker_client.thread_spouts import Spout

if TYPE_CHECKING:
    import httpx


class Options(terms.Options, total=False):
    """The further arguments of an `Acker`: those of `Terms`, what hears of a `Reject`, an httpx transport, a sleep."""

    on_reject: "flows.OnReject | None"
    transport: "httpx.BaseTransport | None"
    sleep: Callable[[float], object]


class Acker(hand.Hand):
    """The acker at ``url``, for one topology and any number of threads; ``api_key`` goes along as bearer token.

    Close it, or use it as a context manager. ::

        with Acker("http://127.0.0.1:8700", topology="orders") as acker:
            with acker.execute(headers, component="split") as tuple_:
                queue.send(word, headers=tuple_.anchor("0").headers())

    Acks linger for a moment and go out together (`Terms`), at the latest on ``flush()``, ``close()`` and at the end of
    the interpreter. What cannot be delivered is counted, and told to the next call as `Undelivered`. After a fork the
    parent keeps what was gathered, and the child is empty.
    """

    def __init__(
        self, url: str, topology: str = "default", api_key: str | None = None, **options: Unpack[Options]
    ) -> None:
        transport, sleep = options.pop("transport", None), options.pop("sleep", time.sleep)
        on_reject = options.pop("on_reject", None)
        agreed = terms.agree(options)
        reach = connection.Reach(url=url, api_key=api_key, transport=transport)
        self._driver = Driver(reach.connector(agreed), sleep=sleep)
        super().__init__(topology, agreed, on_reject)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def flush(self) -> None:
        """Send what lingers, and come back when it has been answered. Raises `Undelivered`."""
        self._driver.run(self._flows.flush())

    def close(self) -> None:
        """Flush, and close the connections. Raises `Undelivered`."""
        self._flows.lingering.end()
        try:
            self.flush()
        finally:
            self._driver.close()

    def spout(self, name: str, *, shared: bool = False) -> Spout:
        """Give the spout of this name: this process's own (host and process are added) or, shared, the name as is.

        Share a name between processes that only emit, while a webhook or one process receives. A name of its own is
        ephemeral: the service removes it some time after the process has gone.
        """
        return Spout(task=self._spout_task(name, shared=shared), emitting=self._emitting, driver=self._driver)

    @contextmanager
    def execute(
        self, headers: anchoring.Headers, *, component: str, on_error: flows.OnError = "fail"
    ) -> Iterator[tuples.Tuple]:
        """Take a tuple for a block: acked when the block ends; on an exception failed, or left to be redelivered.

        KeyboardInterrupt and other ends of the program send nothing. `Retry` fails and `Reject` acks the tuple; neither
        goes any further.
        """
        tuple_ = self._tuple_for(headers, component, on_error)
        try:
            yield tuple_
        except BaseException as error:
            if not self._driver.run(self._flows.interrupted(tuple_, error, on_error)):
                raise
        else:
            self._driver.run(self._flows.executed(tuple_))

    def ack(self, tuple_: tuples.Tuple) -> flows.Words:
        """Ack a tuple: with ``linger_ms=0`` one word per anchor, else none, since it goes out later.

        Waits where the buffer is full, or raises `BufferFull`. Raises `Undelivered` for earlier acks, doing nothing.
        """
        return self._driver.run(self._flows.ack(tuple_))

    def fail(self, tuple_: tuples.Tuple, *, reason: str | None = None) -> flows.Words:
        """Fail every root of a tuple, now, one word each; none where a batch gathers them."""
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
            self._driver.run(self._emitting.deliver(batch))
            raise
        self._driver.run(self._emitting.deliver(batch))

    def _forget_parent(self) -> None:
        self._driver.start_anew()

    def _last_driver(self) -> Driver:
        return self._driver
