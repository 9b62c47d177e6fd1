"""TLS between the network and a connection of ours.

asyncio and uvloop have TLS of their own, but under it no limit of a connection would hold: a client that never shakes
hands is no connection to them, an answer of any size leaves their buffer at once, and a close waits for the client's.
Here a connection counts from its first byte, and its answers stay in the buffer of the network's transport.
"""

import asyncio
import contextlib
import re
import ssl
from typing import Any, ClassVar

from acker_protocol.errors import InvalidRequest, TooLarge

from acker_service.http.certificate import Certificate
from acker_service.http.connection import EXTRA_CONNECTIONS, NOTHING, Connection
from acker_service.http.problems import encode_refusal
from acker_service.metrics.instruments import CONNECTIONS, HANDSHAKE

PIECE = 65_536
"""Bytes that are encrypted at once: OpenSSL keeps the memory of the largest piece."""
SLICE = 16_384
"""Bytes that are decrypted in one round of the event loop: a record of a few bytes costs what a large one does."""
SHORTEST_RECORD = 5
"""Bytes that OpenSSL waits for before it takes or refuses a handshake: the head of a record."""
LARGEST_RECORD = 5 + 16_384 + 2_048
"""Bytes that may have to come before any of them can be decrypted (RFC 5246, section 6.2.3)."""
EXPANSION = 128
"""Bytes of TLS that are accounted for by each byte that they decrypt to: a record of one byte has up to 86."""

_METHOD = re.compile(rb"[A-Z]{3}[A-Z ]")
"""How a request without TLS begins, and no record of TLS. OpenSSL 3.0 knows GET, HEAD, POST, PUT and CONNECT only."""


class TlsConnection(asyncio.Protocol):
    """The TLS of one connection: to the network a protocol, to the connection above it a transport.

    `encrypted` makes the class for a certificate. The connection above is made once hands are shaken, for which a
    client has as long as for a request; until then this one stands for it among uvicorn's connections. It is closed
    without waiting for the client's own end of TLS.

    Much of what a client may send holds no byte of a request, such as a change of its key. The limit of a head bounds
    it, too, and none of it keeps other connections waiting for longer than one slice.
    """

    certificate: ClassVar[Certificate]
    above: ClassVar[type[Connection]]

    def __init__(self, **arguments: Any) -> None:
        self._arguments = arguments
        self._connections: set[Any] = arguments["server_state"].connections
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = self.certificate.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._connection: Connection | None = None
        self._beginning = b""
        self._left = NOTHING
        self._overhead = 0
        self._is_paused = False
        self._has_ended = False
        self._network: asyncio.Transport
        self._timer: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the handshake; a connection far over the limit is closed."""
        limits, metrics = self.above.limits, self.above.metrics
        self._network = transport
        self._timer = asyncio.get_running_loop().call_later(limits.body_timeout_s, transport.abort)
        self._connections.add(self)
        metrics.connections.inc()
        if len(self._connections) > limits.max_connections + EXTRA_CONNECTIONS:
            metrics.count_overloaded(CONNECTIONS)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the connection above, or forget one that has not shaken hands."""
        self._timer.cancel()
        if self._connection is not None:
            self._connection.connection_lost(exc)
            self._connection = None  # each refers to the other
        else:
            self._connections.discard(self)
            self.above.metrics.connections.dec()

    def data_received(self, data: bytes) -> None:
        """Decrypt what comes, a slice in each round of the event loop; nothing more comes meanwhile."""
        if len(data) <= SLICE:
            self._take(data)
        else:
            self._network.pause_reading()
            self._left = memoryview(data)
            self._take_slice()

    def eof_received(self) -> None:
        """Let the transport close, as without TLS."""
        if self._connection is not None:
            self._connection.eof_received()

    def pause_writing(self) -> None:
        """Let the connection above stop: the client does not read."""
        if self._connection is not None:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Let the connection above go on."""
        if self._connection is not None:
            self._connection.resume_writing()

    def shutdown(self) -> None:
        """End a connection that has not shaken hands: the process ends."""
        self._network.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what is known of the transport; ``sslcontext`` says that it is encrypted."""
        return self._tls.context if name == "sslcontext" else self._network.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        """Return how many encrypted bytes the network's transport holds."""
        return self._network.get_write_buffer_size()

    def is_closing(self) -> bool:
        """Whether it closes, or is closed."""
        return self._network.is_closing()

    def pause_reading(self) -> None:
        """Receive nothing."""
        self._is_paused = True
        self._network.pause_reading()

    def resume_reading(self) -> None:
        """Receive again, once all is decrypted that has come."""
        self._is_paused = False
        if not self._left:
            self._network.resume_reading()

    def abort(self) -> None:
        """Close at once."""
        self._network.abort()

    def write(self, data: bytes) -> None:
        """Encrypt and send; what comes after the end is dropped."""
        if self._has_ended or self._network.is_closing():
            return
        left = memoryview(data)
        try:
            while left:
                left = left[self._tls.write(left[:PIECE]) :]
                self._send()
        except ssl.SSLError:
            self._network.abort()

    def write_eof(self) -> None:
        """End our side; the client may still send."""
        self._end()
        self._network.write_eof()

    def close(self) -> None:
        """Close once the client has taken what is written."""
        self._end()
        self._network.close()

    def _take_slice(self) -> None:
        """Take the next slice; others run before the one after it."""
        data, self._left = bytes(self._left[:SLICE]), self._left[SLICE:]
        self._take(data)
        if self._network.is_closing():
            self._left = NOTHING
        elif self._left:
            # rule: no more than a slice is decrypted in one round of the event loop
            asyncio.get_running_loop().call_soon(self._take_slice)
        elif not self._is_paused:
            self._network.resume_reading()

    def _take(self, data: bytes) -> None:
        """Decrypt some input; after the end of our side it is only counted."""
        if self._has_ended and self._connection is not None:
            self._connection.data_received(data)
        elif not self._network.is_closing():
            self._incoming.write(data)
            self._overhead += len(data)
            if self._connection is not None or self._shake_hands(data):
                self._read()
            # rule: what decrypts to nothing is bounded as a head is
            if self._overhead > self.above.limits.max_header_bytes + LARGEST_RECORD:
                self.above.metrics.heads_refused[TooLarge.code].inc()
                self._network.abort()

    def _shake_hands(self, data: bytes) -> bool:
        """Go on with the handshake, and return whether the connection above is there now."""
        if len(self._beginning) < SHORTEST_RECORD:
            self._beginning += data[:SHORTEST_RECORD]
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send()
            return False
        except ssl.SSLError:
            self._refuse()
            return False
        self._send()
        self._timer.cancel()
        self._connections.discard(self)
        self.above.metrics.connections.dec()  # the connection above counts itself
        self._connection = self.above(**self._arguments)
        self._connection.connection_made(self)  # type: ignore[arg-type]
        return True

    def _read(self) -> None:
        """Pass on all that can be decrypted."""
        assert self._connection is not None
        parts, is_whole = list[bytes](), True
        try:
            while self._incoming.pending or self._tls.pending():
                part = self._tls.read(SLICE)
                if not part:  # the client has ended its side
                    is_whole = False
                    break
                parts.append(part)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            is_whole = False
        self._send()
        if parts:
            data = b"".join(parts)
            self._overhead = max(0, self._overhead - EXPANSION * len(data))
            self._connection.data_received(data)
        if not is_whole and not self._network.is_closing():
            self._connection.eof_received()
            self.close()

    def _send(self) -> None:
        if self._outgoing.pending:
            self._network.write(self._outgoing.read())

    def _end(self) -> None:
        """Say that nothing follows, without waiting for the client to say so, too."""
        if self._has_ended or self._network.is_closing():
            return
        self._has_ended = True
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        self._send()

    def _refuse(self) -> None:
        """Close a connection whose handshake failed; a request without TLS is answered where to go."""
        self.above.metrics.heads_refused[HANDSHAKE].inc()
        if _METHOD.match(self._beginning):
            self._network.write(encode_refusal(InvalidRequest("this address speaks TLS: use https")))
        else:
            self._send()
        self._network.close()


def encrypted(connection: type[Connection], certificate: Certificate) -> type[TlsConnection]:
    """Make the class of connections over TLS, with those of another class above them."""
    return type("Encrypted", (TlsConnection,), {"above": connection, "certificate": certificate})
