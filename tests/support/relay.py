"""Passes TCP connections on to a port of this machine, and cuts them when told to."""

import contextlib
import socket
import threading
from collections.abc import Iterator


class Relay:
    """Listens on a port of its own; ``cut`` ends every connection that is open, new ones are passed on again."""

    def __init__(self, port: int) -> None:
        self._behind = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open: list[socket.socket] = []

    def lead_to(self, port: int) -> None:
        """Pass new connections on to another port."""
        self._behind = port

    def cut(self) -> None:
        """End every connection."""
        for end in list(self._open):  # whoever connects again meanwhile is not cut
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def serve(self) -> None:
        """Accept until the listener is closed."""
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._behind))
                self._open += [near, far]
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=_pump, args=ends, daemon=True).start()

    def stop(self) -> None:
        """Close everything."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for end in self._open:
            end.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while said := source.recv(65_536):
            sink.sendall(said)
        sink.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def relayed(port: int) -> Iterator[Relay]:
    """Have a relay to a port until the block is left."""
    relay = Relay(port)
    thread = threading.Thread(target=relay.serve)
    thread.start()
    try:
        yield relay
    finally:
        relay.stop()
        thread.join()
