"""Waits of a thread that end when a test says so."""

import queue
import threading


class Waits:
    """Waits that end when the test lets them: by `pass_one` for the time to pass, or with the block."""

    def __init__(self) -> None:
        self._asked: queue.Queue[float] = queue.Queue()
        self._passed: queue.Queue[bool] = queue.Queue()

    def __call__(self, over: threading.Event, seconds: float) -> bool:
        self._asked.put(seconds)
        while not over.is_set():
            try:
                return not self._passed.get(timeout=0.01)
            except queue.Empty:
                continue
        return True

    def begun(self) -> float:
        """Come back when a wait has begun, and return its seconds."""
        return self._asked.get(timeout=30)

    def pass_one(self) -> float:
        """Let the time of one wait pass, and come back when the next has begun."""
        self._passed.put(True)  # noqa: FBT003 - it has passed
        return self.begun()
