"""An import with a chord of Celery, over Redis: ``python -m examples.comparison.import_with_celery``."""

from celery import Celery, chord

from examples.comparison.rows import ROWS, WrongRow, load_row
from examples.comparison.store import REDIS_URL

app = Celery("examples.comparison.import_with_celery", broker=REDIS_URL, backend=REDIS_URL)
app.conf.update(task_acks_late=True, broker_connection_retry_on_startup=True, worker_redirect_stdouts=False)


@app.task  # type: ignore[untyped-decorator]
def load(row: int) -> bool:
    """Say whether the row is imported: a task that raises is an error of the chord, whose body is not called then."""
    try:
        load_row(row)
    except WrongRow:
        return False
    return True


@app.task  # type: ignore[untyped-decorator]
def report(imported: list[bool]) -> None:
    """The body of the chord; then the worker of this example ends."""
    print(f"all rows have ended, {imported.count(False)} failed", flush=True)
    app.control.shutdown()


def main() -> None:
    """Send the chord, and run a worker until its body was called."""
    chord(load.s(row) for row in ROWS)(report.s())
    app.worker_main(["worker", "--pool", "solo", "--loglevel", "WARNING", "--without-gossip", "--without-mingle"])


if __name__ == "__main__":
    main()
