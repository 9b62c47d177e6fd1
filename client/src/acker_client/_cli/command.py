"""A command that runs as a child process: its signals, its exit code, the last line of its stderr."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from acker_protocol.wire.fields import REASON_CHARACTERS

from acker_client._cli.parsing import print_line

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
"""How much of stderr is kept: more than the last line of a reason takes."""

DRAIN_S = 0.5
"""How long stderr is read after the command's end, where a process that it left behind keeps it open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended: its exit code, 128 and the signal's number for a signal, and why it failed."""

    exit_code: int
    reason: str = ""


class Command:
    """A command that was started, or could not be; only the main thread may make it. It gets this process's signals.

    With ``keep_stderr`` its stderr goes through a pipe, and its last line is the reason.
    """

    def __init__(self, command: Sequence[str], *, environment: Mapping[str, str], keep_stderr: bool) -> None:
        self._command = command
        self._not_started: Ended | None = None
        self._tail: _Tail | None = None
        signals = _PassedSignals()
        try:
            stderr = subprocess.PIPE if keep_stderr else None
            self._process = subprocess.Popen(command, env=dict(environment), stderr=stderr)
        except OSError as error:
            self._not_started = _describe_error(command, error)
            return
        signals.pass_to(self._process)
        if self._process.stderr is not None:
            self._tail = _Tail(self._process.stderr.fileno())

    def wait(self) -> Ended:
        """Wait for its end."""
        if self._not_started is not None:
            return self._not_started
        code = self._process.wait()
        last_line = self._tail.last_line() if self._tail is not None else ""
        return Ended(exit_code=code if code >= 0 else 128 - code, reason=last_line or _describe(self._command, code))


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


class _Tail:
    """Copies a pipe to the stderr of this process in a thread, and keeps its end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._kept = b""
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    def last_line(self) -> str:
        """Return the last line that is not blank, cut to the length of a reason."""
        self._thread.join(DRAIN_S)
        if self._thread.is_alive():
            self._continue_in_cat()
        lines = [line for line in self._kept.decode(errors="replace").splitlines() if line.strip()]
        return lines[-1].strip()[:REASON_CHARACTERS] if lines else ""

    def _continue_in_cat(self) -> None:
        """Start a process that copies the rest: else SIGPIPE would kill what still writes to the pipe."""
        with suppress(OSError):
            subprocess.Popen(["cat"], stdin=self._descriptor, stdout=sys.stderr, start_new_session=True)  # noqa: S607

    def _copy(self) -> None:
        while data := os.read(self._descriptor, 65_536):
            self._kept = (self._kept + data)[-KEPT_BYTES:]
            with suppress(OSError):
                sys.stderr.buffer.write(data)
                sys.stderr.buffer.flush()


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
