"""Any bytes on a connection to a running acker, in pieces: it answers in HTTP and never with a fault of its own."""

import socket
from urllib.parse import urlsplit

import httptools

from tests.fuzz.reader import Reader

MOST_PIECES = 4
ANSWERED_S = 20.0


class Answers:
    """What the parser of HTTP reads of all answers of a connection."""

    def __init__(self, data: bytes) -> None:
        self.statuses: list[int] = []
        self.whole = 0
        self._parser = httptools.HttpResponseParser(self)
        self._parser.feed_data(data)

    def on_status(self, _: bytes) -> None:
        self.statuses.append(self._parser.get_status_code())

    def on_message_complete(self) -> None:
        self.whole += 1


class Connections:
    """Sends to the acker at this address."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname, parts.port)

    def __call__(self, data: bytes) -> None:
        """Send these bytes at once, and again in pieces; both are answered, with the same problems."""
        reader = Reader(data)
        cuts = sorted(reader.number(2) for _ in range(reader.number() % MOST_PIECES))
        sent = reader.rest()
        pieces = [sent[begin:end] for begin, end in zip((0, *cuts), (*cuts, len(sent)), strict=True)]
        once, apart = self._answered([sent]), self._answered([piece for piece in pieces if piece])
        for answers in (once, apart):
            assert 500 not in answers.statuses, answers.statuses
            assert answers.whole == len(answers.statuses), answers.statuses
        assert _problems(once) == _problems(apart), (once.statuses, apart.statuses)

    def _answered(self, pieces: list[bytes]) -> Answers:
        with socket.create_connection(self._address, timeout=ANSWERED_S) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            received = bytearray()
            try:
                for piece in pieces:
                    connection.sendall(piece)
                connection.shutdown(socket.SHUT_WR)
                while part := connection.recv(65_536):
                    received += part
            except (ConnectionResetError, BrokenPipeError):
                pass  # it has refused what came and closed; what it has said before may be lost
        return Answers(bytes(received))


def _problems(answers: Answers) -> list[int]:
    """Return the answers that do not depend on what was sent before."""
    return [status for status in answers.statuses if status in (400, 404, 405, 413, 415, 431)]
