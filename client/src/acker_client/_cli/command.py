"""A command that runs as a child process: its signals, its exit code, and the line that says why it failed."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, TextIO

from acker_protocol.wire.fields import REASON_CHARACTERS

from acker_client._cli.parsing import print_line
from acker_client._cli.reason_search import ReasonSearch

CANNOT_EXECUTE = 126
NOT_FOUND = 127
"""Exit codes of a command that cannot be started, as a shell gives them."""

PASSED_ON = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)
FROM_TERMINAL = frozenset({signal.SIGINT, getattr(signal, "SIGQUIT", None)})

KEPT_BYTES = 16_384
"""How much of an output is kept for its last line: more than a reason takes."""
SEARCHED_BYTES = 1_048_576
"""How much of an output is kept where an expression is looked for."""

DRAIN_S = 0.5
"""How long an output is read after the command's end, where a process that it left behind keeps it open."""

COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""The codes by which a program colours its lines where it is told to, as in CI."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended: its exit code, 128 and the signal's number for a signal, and why it failed."""

    exit_code: int
    reason: str = ""


class Command:
    """A command that was started, or could not be; only the main thread may make it. It gets this process's signals.

    With ``keep_reason`` its stderr goes through a pipe, and its last line is the reason. With ``search`` its stdout
    does, too, and the reason is the last line of stderr, else of stdout, that is found, of the last `SEARCHED_BYTES`.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        keep_reason: bool,
        search: ReasonSearch | None = None,
    ) -> None:
        self._command = command
        self._search = search
        self._not_started: Ended | None = None
        self._outputs: list[_Output] = []
        signals = _PassedSignals()
        stderr = subprocess.PIPE if keep_reason and _is_open(sys.stderr) else None
        keep_stdout = keep_reason and search is not None and _is_open(sys.stdout)
        kept = KEPT_BYTES if search is None else SEARCHED_BYTES
        stdout = subprocess.PIPE if keep_stdout else None
        try:
            self._process = subprocess.Popen(command, env=dict(environment), stdout=stdout, stderr=stderr)
        except OSError as error:
            self._not_started = _describe_error(command, error)
            return
        signals.pass_to(self._process)
        if self._process.stderr is not None:
            self._outputs.append(_Output(self._process.stderr, sys.stderr, kept=kept))
        if self._process.stdout is not None:
            self._outputs.append(_Output(self._process.stdout, sys.stdout, kept=kept, ends_with_reader=True))

    def wait(self) -> Ended:
        """Wait for its end."""
        if self._not_started is not None:
            return self._not_started
        code = self._process.wait()
        for output in self._outputs:
            output.drain()
        if code == 0:
            return Ended(exit_code=0)
        reason = self._reason() or _describe(self._command, code)
        return Ended(exit_code=code if code > 0 else 128 - code, reason=reason)

    def _reason(self) -> str:
        """Return the line that says why it failed, cut to the length of a reason; empty if no line does."""
        return (self._found() or self._last_line())[:REASON_CHARACTERS]

    def _found(self) -> str:
        if self._search is None:
            return ""
        return self._search.find([line for output in self._outputs for line in reversed(output.lines(SEARCHED_BYTES))])

    def _last_line(self) -> str:
        lines = [line for output in self._outputs if not output.ends_with_reader for line in output.lines(KEPT_BYTES)]
        return lines[-1] if lines else ""


class _PassedSignals:
    """Passes the signals that this process gets on to a command, also those that come before it was started.

    The handlers stay: a signal after the command's end must not prevent its ack.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        for number in PASSED_ON:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as by nohup: the command ignores it, too
                signal.signal(number, self._pass_on)

    def pass_to(self, process: "subprocess.Popen[bytes]") -> None:
        """Pass signals to this command from now on."""
        self._process = process
        for number in self._early:
            process.send_signal(number)

    def _pass_on(self, number: int, _: FrameType | None) -> None:
        if self._process is None:
            self._early.append(number)
        elif number not in FROM_TERMINAL or not _is_in_foreground():
            self._process.send_signal(number)


class _Output:
    """Copies a pipe to an output of this process in a thread, and keeps the last ``kept`` bytes.

    Where nobody reads the copy any more, an output that ``ends_with_reader`` closes the pipe: the command gets SIGPIPE,
    as it does without the pipe.
    """

    def __init__(self, pipe: IO[bytes], own: IO[str], *, kept: int, ends_with_reader: bool = False) -> None:
        self._pipe = pipe
        self._own = own
        self._most = kept
        self.ends_with_reader = ends_with_reader
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    def drain(self) -> None:
        """Read what is left, at most for `DRAIN_S`."""
        self._thread.join(DRAIN_S)
        if self._thread.is_alive():
            self._continue_in_cat()

    def lines(self, most_bytes: int) -> list[str]:
        """Return the lines of the last bytes that are kept, those that are not blank, without the codes of colours."""
        lines = COLOURS.sub("", self._kept[-most_bytes:].decode(errors="replace")).splitlines()
        return [line.strip() for line in lines if line.strip()]

    def _continue_in_cat(self) -> None:
        """Start a process that copies the rest: else SIGPIPE would kill what still writes to the pipe."""
        with suppress(OSError):
            subprocess.Popen(["cat"], stdin=self._pipe, stdout=self._own, start_new_session=True)  # noqa: S607

    def _copy(self) -> None:
        while data := os.read(self._pipe.fileno(), 65_536):
            self._keep(data)
            try:
                _write(self._own.fileno(), data)
            except OSError:
                if self.ends_with_reader:
                    self._pipe.close()
                    return

    def _keep(self, data: bytes) -> None:
        self._kept += data
        if len(self._kept) > 2 * self._most:  # not each time: that would copy what is kept for every line
            del self._kept[: -self._most]


def _is_open(stream: TextIO | None) -> bool:
    """Whether an output of this process is open: Python has None for one that was closed when it started."""
    return stream is not None


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _is_in_foreground() -> bool:
    """Whether the terminal sends its signals to this process's group, so that the command has got them, too."""
    try:
        terminal = os.open(Path("/dev/tty"), os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _describe_error(command: Sequence[str], error: OSError) -> Ended:
    reason = f"{command[0]} cannot be started: {error.strerror}"
    print_line(f"acker: {reason}", file=sys.stderr)
    return Ended(exit_code=NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_EXECUTE, reason=reason)


def _describe(command: Sequence[str], code: int) -> str:
    name = Path(command[0]).name
    return f"{name} exited with {code}" if code >= 0 else f"{name} was ended by {signal.Signals(-code).name}"
