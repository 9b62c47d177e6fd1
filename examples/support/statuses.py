"""The final status of every order, in a SQLite file that all workers share."""

import contextlib
import enum
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PATIENCE_S = 0.5
"""How long a worker waits for the database before that is an error."""

_TABLES = """
CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, status TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS history (id TEXT NOT NULL, status TEXT NOT NULL);
CREATE TRIGGER IF NOT EXISTS set_first AFTER INSERT ON orders
    BEGIN INSERT INTO history VALUES (new.id, new.status); END;
CREATE TRIGGER IF NOT EXISTS set_again AFTER UPDATE ON orders
    BEGIN INSERT INTO history VALUES (new.id, new.status); END;
"""

Away = sqlite3.OperationalError
"""What every use raises while the database is away."""


class Status(enum.StrEnum):
    """How an order ends."""

    AUTHORISED = "authorised"
    DECLINED = "declined"
    INVALID = "invalid"


class Statuses:
    """The statuses; every use opens the file again, so any thread of any process may. Raises `Away`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def create(self) -> None:
        """Make the tables, unless they are there."""
        with self._open() as database:
            database.executescript(_TABLES)

    def of(self, order_id: str) -> Status | None:
        """Return the status of an order, None while it has none."""
        with self._open() as database:
            found = database.execute("SELECT status FROM orders WHERE id = ?", [order_id]).fetchone()
        return None if found is None else Status(found[0])

    def settle(self, order_id: str, status: Status) -> Status:
        """Give an order its status unless it has one, and return the one it has then. So it may be done again."""
        with self._open() as database:
            database.execute("INSERT OR IGNORE INTO orders VALUES (?, ?)", [order_id, status])
            found = database.execute("SELECT status FROM orders WHERE id = ?", [order_id]).fetchone()
        return Status(found[0])

    def overwrite(self, order_id: str, status: Status) -> Status:
        """Return an order this status, whatever it had: the way that is not to be done again."""
        with self._open() as database:
            upsert = "INSERT INTO orders VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET status = excluded.status"
            database.execute(upsert, [order_id, status])
        return status

    def all(self) -> dict[str, Status]:
        """Return the status of every order that has one."""
        with self._open() as database:
            return {order: Status(status) for order, status in database.execute("SELECT id, status FROM orders")}

    def times_set(self) -> Counter[str]:
        """Return how many times each order was given a status."""
        with self._open() as database:
            return Counter(dict(database.execute("SELECT id, count(*) FROM history GROUP BY id")))

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction. A killed worker's half one is undone by who comes next."""
        with contextlib.closing(sqlite3.connect(self._path, timeout=PATIENCE_S)) as database:
            database.execute("PRAGMA synchronous = OFF")  # outlives kill -9 of any process, not a loss of power
            with database:
                yield database


@contextlib.contextmanager
def away(path: Path) -> Iterator[None]:
    """Take the database away from everybody else for a block, by locking it wholly: they can neither read nor write."""
    with contextlib.closing(sqlite3.connect(path, timeout=120, isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        try:
            yield
        finally:
            database.execute("ROLLBACK")
