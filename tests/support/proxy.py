"""Stands between the acker and its Redis, and does to what passes through what networks do."""

import asyncio
import contextlib
import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from enum import Enum, auto


class Fate(Enum):
    """What becomes of an answer of Redis; the command has been carried out whatever it is."""

    PASS = auto()
    DROP = auto()
    CUT = auto()
    DELAY = auto()
    CHANGE = auto()


class Proxy:
    """Passes bytes on between its own port and Redis's; ``fates`` says what becomes of each answer in turn."""

    def __init__(self, port: int) -> None:
        self.fates: Iterator[Fate] = itertools.repeat(Fate.PASS)
        self.fallen: list[Fate] = []
        self._behind = port
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._loop = asyncio.new_event_loop()
        self._passing: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def after(self, count: int, *fates: Fate) -> None:
        """Let so many answers pass, then come to these fates, and again; the first round begins now."""
        self.fates = itertools.cycle([Fate.PASS] * count + list(fates))

    def once(self, fate: Fate, when: Callable[[bytes], bool]) -> None:
        """Bring the answer to the next command that fits to a fate, and let all others pass."""
        self._when = when
        self._fate = fate

    def say(self, words: bytes, when: Callable[[bytes], bool]) -> None:
        """Give other words as the answer to the next command that fits."""
        self._words = words
        self.once(Fate.CHANGE, when)

    def start(self) -> None:
        """Begin to listen."""
        self._when: Callable[[bytes], bool] | None = None
        self._words = b""
        self._thread.start()

    def stop(self) -> None:
        """Close everything."""
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(self._serve())
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._task)
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._pass, sock=self._socket)
        try:
            await server.serve_forever()
        finally:
            server.close()
            while pending := asyncio.all_tasks() - {asyncio.current_task()}:  # one may have been accepted just now
                for task in pending:
                    task.cancel()
                await asyncio.gather(*pending, return_exceptions=True)

    async def _pass(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        passing = asyncio.current_task()
        assert passing is not None
        self._passing.add(passing)  # the event loop alone would let it go with its connection, unfinished
        passing.add_done_callback(self._passing.discard)
        try:
            far, forth = await asyncio.open_connection("127.0.0.1", self._behind)
        except OSError:
            back.transport.abort()
            return
        marked = asyncio.Event()
        commands = asyncio.create_task(self._pass_commands(near, forth, marked))
        try:
            await self._pass_answers(far, back, marked)
        except (OSError, asyncio.CancelledError):  # asyncio.streams would tell of a task that was cancelled
            pass
        finally:
            commands.cancel()
            for writer in (forth, back):
                writer.transport.abort()

    async def _pass_commands(
        self, near: asyncio.StreamReader, forth: asyncio.StreamWriter, marked: asyncio.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while sent := await near.read(65_536):
                if self._when is not None and self._when(sent):
                    self._when = None
                    marked.set()
                forth.write(sent)
                await forth.drain()
        forth.transport.abort()

    async def _pass_answers(self, far: asyncio.StreamReader, back: asyncio.StreamWriter, marked: asyncio.Event) -> None:
        while answer := await far.read(65_536):
            fate = self._fate if marked.is_set() else next(self.fates)
            if fate is not Fate.PASS:
                self.fallen.append(fate)
            if fate is Fate.DROP:
                return
            if fate is Fate.DELAY:
                await asyncio.sleep(0.2)
            back.write(self._changed(answer, fate))
            await back.drain()
            if fate is Fate.CUT:
                return
            if fate is Fate.CHANGE:
                marked.clear()

    def _changed(self, answer: bytes, fate: Fate) -> bytes:
        if fate is Fate.CHANGE:
            return self._words
        return answer[: len(answer) // 2] if fate is Fate.CUT else answer


@contextlib.contextmanager
def proxied(port: int) -> Iterator[Proxy]:
    """Stand before a port until the block is left."""
    proxy = Proxy(port)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
