"""Calls a function before each task of a Celery application runs, which may refuse the run.

Celery logs what a receiver of ``task_prerun`` raises, and runs the task all the same. What `Task.before_start` raises
it takes for the task's own; it calls the method only where the class of the task has one of its own.
"""

from collections.abc import Callable
from typing import Any


def call_before_start(tasks: "list[Any]", function: Callable[[Any], None]) -> None:
    """Call a function with each of these tasks before it runs, and then its own ``before_start``."""
    for task_class in {type(task) for task in tasks}:
        task_class.before_start = _both(function, task_class.before_start)


def _both(function: Callable[[Any], None], own: Callable[..., None]) -> Callable[..., None]:
    def before_start(task: Any, task_id: str, args: Any, kwargs: Any) -> None:
        function(task)
        own(task, task_id, args, kwargs)

    return before_start
