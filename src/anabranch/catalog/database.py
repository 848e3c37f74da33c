"""The database of a catalog, SQLite or PostgreSQL, shared by several processes.

Statements mark values with ? and are understood by both. Rows are dicts by the names of columns; what is
inserted names its columns, too. Errors become ours and say what to do. No transaction outlives a call.

    database = Database(Path("out/_anabranch/catalog.sqlite"))
    with database.writing():
        database.insert("meta", [{"key": "identity", "value": "3f9c"}])
    database.read("SELECT key, value FROM meta")        # [{"key": "identity", "value": "3f9c"}]
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol, TypeVar

from anabranch.catalog.migrations import FORMAT, STEPS
from anabranch.catalog.postgres import Postgres
from anabranch.catalog.sqlite import Sqlite
from anabranch.model.errors import AnabranchError, FormatError
from anabranch.model.job import CATALOG_SCHEMES

T = TypeVar("T")

#: The path of a SQLite file, or the URL of a PostgreSQL database.
Address = Path | str

Row = dict[str, Any]

#: So many threads use a database at once; one of them may write. A connection is opened when it is needed.
MOST_CONNECTIONS = 4


class Backend(Protocol):
    """What differs between the two."""

    failures: tuple[type[Exception], ...]

    @property
    def shown(self) -> str: ...

    def exists(self) -> bool:
        """Whether there is a catalog already."""

    def connect(self) -> Any:
        """Returns a connection whose rows are dicts."""

    def has_tables(self, connection: Any, /) -> bool: ...

    def lost(self, connection: Any, /) -> bool:
        """Whether the server ended the connection."""

    def begin(self, connection: Any, /) -> None:
        """Begins a transaction that overlaps no other."""

    def run(self, connection: Any, statement: str, values: tuple[Any, ...], /) -> Any: ...

    def run_many(self, connection: Any, statement: str, rows: list[tuple[Any, ...]], /) -> Any: ...

    def error(self, error: Exception, /) -> AnabranchError: ...


def backend_of(address: Address) -> Backend:
    if isinstance(address, str) and address.startswith(CATALOG_SCHEMES):
        return Postgres(address)
    return Sqlite(Path(address))


def shown(address: Address) -> str:
    """Returns the address as messages name it: without a password."""
    return backend_of(address).shown


def exists(address: Address) -> bool:
    """Whether there is a catalog; none is created."""
    backend = backend_of(address)
    with _our_errors(backend):
        return backend.exists()


def now(later_s: float = 0.0) -> str:
    """Returns the time of this machine as the catalog keeps it: 2026-01-31T12:00:00.000Z"""
    moment = datetime.now(UTC) + timedelta(seconds=later_s)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class ConnectionPool:
    """A few connections: each is used by one thread at a time, and a thread waits where all are in use."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._idle: list[Any] = []
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def one(self) -> Iterator[list[Any]]:
        """A list with a connection, which the user may replace by another."""
        with self._free:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            used = [self._backend.connect() if connection is None else connection]
            try:
                yield used
            finally:
                with self._lock:
                    keep = not self._closed and not self._backend.lost(used[0])
                    if keep:
                        self._idle.append(used[0])
                if not keep:
                    used[0].close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


class Database:
    """A database that may be used from several threads; each process opens its own. One thread writes at a
    time; threads that read wait for none, as long as there are connections.
    """

    def __init__(self, address: Address) -> None:
        self._backend = backend_of(address)
        self._connections = ConnectionPool(self._backend)
        self._write_lock = threading.Lock()
        self._thread = threading.local()  # .connection: that of the transaction of this thread
        with _our_errors(self._backend):
            self._prepare()

    @property
    def shown(self) -> str:
        """The address, as messages name it."""
        return self._backend.shown

    def close(self) -> None:
        self._connections.close()

    def __del__(self) -> None:
        with suppress(Exception):
            self._connections.close()

    def read(self, statement: str, *values: Any) -> list[Row]:
        def rows(connection: Any) -> list[Row]:
            fetched: list[Row] = self._backend.run(connection, statement, values).fetchall()
            return fetched

        with _our_errors(self._backend):
            if self._writing:
                return rows(self._connection)
            with self._connections.one() as used:
                return self._reconnecting(used, rows)

    @property
    def _connection(self) -> Any:
        """The connection of the transaction of this thread; None outside of `writing`."""
        return getattr(self._thread, "connection", None)

    @property
    def _writing(self) -> bool:
        return self._connection is not None

    def read_value(self, statement: str, *values: Any) -> Any:
        """Returns the only column of the first row, None where there is no row."""
        rows = self.read(statement, *values)
        return next(iter(rows[0].values())) if rows else None

    def write(self, statement: str, *values: Any) -> None:
        """Inside `writing` only."""
        assert self._writing
        self._backend.run(self._connection, statement, values)

    def write_many(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        """Runs one statement for the values of every row. Inside `writing` only."""
        assert self._writing
        self._backend.run_many(self._connection, statement, rows)

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        """Inserts rows that all have the same columns. Inside `writing` only."""
        if rows:
            columns = list(rows[0])
            marks = ", ".join("?" * len(columns))
            statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
            self.write_many(statement, [tuple(row[column] for column in columns) for row in rows])

    @contextmanager
    def writing(self) -> Iterator[Database]:
        """A short transaction. One process writes at a time: what is read in it is still true when it
        commits.
        """
        with self._write_lock, _our_errors(self._backend), self._connections.one() as used:
            self._reconnecting(used, self._backend.begin)
            self._thread.connection = used[0]
            try:
                yield self
                self._backend.run(used[0], "COMMIT", ())
            except BaseException:
                with suppress(*self._backend.failures):
                    self._backend.run(used[0], "ROLLBACK", ())
                raise
            finally:
                self._thread.connection = None

    def _reconnecting(self, used: list[Any], work: Callable[[Any], T]) -> T:
        """Tries once more on a new connection if the server had ended the old one, where nothing was changed
        yet.
        """
        try:
            return work(used[0])
        except self._backend.failures:
            if not self._backend.lost(used[0]):
                raise
            used[0] = self._backend.connect()
            return work(used[0])

    def _prepare(self) -> None:
        """Takes the steps that are missing, all of them or none."""
        format = self._format()
        if format < FORMAT:
            with self.writing():
                for step in range(self._format(), FORMAT):  # another process may have been faster
                    for statement in STEPS[step]:
                        self.write(statement)
                    self.write("DELETE FROM meta WHERE key = 'format'")
                    self.insert("meta", [{"key": "format", "value": str(step + 1)}])
            format = self._format()
        if format != FORMAT:
            raise FormatError(
                f"the catalog {self.shown} has format {format}; this release reads format {FORMAT}: use the "
                "release that created it"
            )

    def _format(self) -> int:
        """Returns 0 where there is nothing yet."""
        if self._writing:
            there = self._backend.has_tables(self._connection)
        else:
            with self._connections.one() as used:
                there = self._reconnecting(used, self._backend.has_tables)
        if not there:
            return 0
        return int(self.read_value("SELECT value FROM meta WHERE key = 'format'") or 0)


@contextmanager
def _our_errors(backend: Backend) -> Iterator[None]:
    try:
        yield
    except AnabranchError:
        raise
    except backend.failures as error:
        raise backend.error(error) from error
