"""Workers of Celery that the tests start."""

from contextlib import AbstractContextManager
from pathlib import Path

from tests.queues.harness import Lab, Worker, working

POOLS = ("prefork", "threads", "gevent")
MODULE = "tests.queues.celery_tasks"
_QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING")


def running(lab: Lab, pool: str, folder: Path, *, module: str = MODULE) -> AbstractContextManager[Lab]:
    """Run a worker on the tasks of a module until the block is left."""
    options = ["--pool", pool, "--concurrency", "4", *_QUIET]
    command = ["-m", "celery", "--app", module, "worker", *options]
    return working(Worker(command, environment=lab.environment(), log=folder / "log"), lab)
