"""The signals that stop an acker, and what it logs at them."""

import asyncio
import signal

SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRACE_S = 10
"""How long requests in flight may take after a stop signal, or once the process has drained."""


def cancel_start_on_signals() -> None:
    """Let a signal cancel the start, with its clean-up, until the server handles signals."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in SIGNALS:
        loop.add_signal_handler(number, task.cancel)


def stop_line(number: int, drain_s: float) -> str:
    """Describe how the acker stops; ``drain_s`` 0: without draining."""
    drain = f"answers on for {drain_s:g} s with Connection: close, then " if drain_s else ""
    return f"stops at {signal.Signals(number).name}: {drain}requests in flight have {GRACE_S} s to end"
