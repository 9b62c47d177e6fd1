"""What `Acker` and `AsyncAcker` have in common: all that sends nothing."""

import os
import secrets
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, Unpack

from acker_protocol.anchors import header_prefix

from acker_client._core import lifecycle, validate
from acker_client._core.hot_path import TupleContext
from acker_client._core.retry import RetrySession
from acker_client._core.spouts import Spouts
from acker_client._core.submitter import Submitter, log_drop
from acker_client._core.tuple_base import BaseTuple, anchor_child
from acker_client.config import ClientOptions, address_from
from acker_client.root import Root, spout_task_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from acker_protocol.anchors import Anchors

    from acker_client._core.effects import Flow
    from acker_client._core.spout_task import Handled, SpoutTask
    from acker_client._core.submitter import OnDrop
    from acker_client._transport import Endpoint
    from acker_client.config import ClientConfig

_PROCESS_TOKEN = secrets.token_hex(4)
"""Tells this process from one in another container with its host name and process id: each must read its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """What a client has counted.

    ``in_flight`` operations are buffered or being sent now; ``lost`` operations could not be delivered;
    ``dropped_tuples`` were acked by a `DropTuple`; ``untracked_tuples`` came without an anchors header; ``skipped``
    tuples were not processed, since all their roots had ended.
    """

    in_flight: int
    lost: int
    dropped_tuples: int
    untracked_tuples: int
    skipped: int = 0


class BaseClient:
    """The parts of a client that need no driver."""

    def __init__(
        self,
        topology: str,
        *,
        endpoint: "Endpoint",
        config: "ClientConfig",
        on_drop: "OnDrop | None",
        driver: Any,
        tuple_class: type[BaseTuple],
    ) -> None:
        self.topology: str = validate.name("topology", topology)
        self._endpoint = endpoint
        self._session = RetrySession(topology=self.topology, config=config, address=endpoint.url)
        self._submitter = Submitter(self._session, on_drop=on_drop or log_drop)
        self._spouts = Spouts(self._submitter)
        self._context = TupleContext(
            topology=self.topology,
            prefix=header_prefix(self.topology),
            submitter=self._submitter,
            session=self._session,
            buffer=self._submitter.flusher.buffer,
            driver=driver,
            tuple_class=tuple_class,
        )
        lifecycle.register(self)

    def __del__(self) -> None:
        if hasattr(self, "_submitter") and not self.is_idle:
            lifecycle.keep_alive(self)

    @classmethod
    def from_env(cls, *, topology: str | None = None, **options: Unpack[ClientOptions]) -> Self:
        """Make a client of ``ACKER_URL`` (default http://127.0.0.1:8700), ``ACKER_TOPOLOGY`` and ``ACKER_API_KEY``.

        ``topology`` wins over the variable; without either it is ``default``, and without a key none is sent.
        ``options`` are the further keywords of the constructor.
        """
        address = address_from(os.environ)
        construct: Any = cls  # the constructors of both clients take these
        own = address.topology if topology is None else topology
        client: Self = construct(address.url, topology=own, api_key=address.api_key, **options)
        return client

    @property
    def config(self) -> "ClientConfig":
        """Its configuration."""
        return self._session.config

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in flight, and no failure is still to be raised."""
        return self._submitter.flusher.buffer.is_idle

    def stats(self) -> Stats:
        """Return what this client has counted."""
        buffer = self._submitter.flusher.buffer
        return Stats(
            in_flight=len(buffer),
            lost=buffer.lost_operations,
            dropped_tuples=self._submitter.dropped_tuples,
            untracked_tuples=self._submitter.untracked_tuples,
            skipped=self._submitter.skipped_tuples,
        )

    def anchor(self, *tuples: BaseTuple, key: str | None = None) -> "Anchors":
        """Anchor one child to all these tuples, an edge in each tree; with a key the edge ids are derived.

        Raises `DuplicateKey`, `TupleClosed`, `TooManyAnchors`, and then no tuple has a new child.
        """
        return anchor_child(tuples, key=key)

    def observe(
        self,
        *,
        root_class: "type[Root]" = Root,
        make_tuple: "Callable[..., Any] | None" = None,
        handled: "Handled | None" = None,
    ) -> None:
        """Let an integration see what passes; what is left out becomes as it was.

        Roots are made of ``root_class``. ``make_tuple(headers, **fields)`` makes each tuple, of a subclass of the
        client's. ``handled`` is called with completions that were handled and are about to be released.
        """
        self._context.make_tuple = make_tuple
        self._spouts.observe(root_class, handled)

    def after_fork_in_child(self) -> None:
        """Drop buffers and connections in the child of a fork: the parent sends what it has buffered."""
        self._submitter.flusher.buffer.clear()
        self._submitter.ended_roots.forget()
        self._spouts.after_fork()
        self._reset_driver()

    def flush_at_exit(self) -> None:
        """Send what is buffered, at the end of the interpreter. Raises `OperationsLost`."""
        self._submitter.flusher.stop()
        if not self.is_idle:
            self._run_at_exit(self._submitter.flush())

    def _reset_driver(self) -> None:
        raise NotImplementedError

    def _run_at_exit(self, flow: "Flow[None]") -> None:
        raise NotImplementedError

    def _own_spout_task(self, name: str) -> "SpoutTask":
        validate.name("the spout's name", name)
        process = f"{os.getpid()}-{_PROCESS_TOKEN}"
        return self._spouts.task(spout_task_name(name, host=socket.gethostname(), process=process), own=True)

    def _shared_spout_task(self, name: str) -> "SpoutTask":
        return self._spouts.task(validate.name("the spout's name", name), own=False)
