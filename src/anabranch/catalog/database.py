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
from datetime import UTC, datetime
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


def now() -> str:
    """Returns the time of this machine as the catalog keeps it: 2026-01-31T12:00:00.000Z"""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Database:
    """A connection that may be used from several threads, one at a time; each process opens its own."""

    def __init__(self, address: Address) -> None:
        self._backend = backend_of(address)
        self._lock = threading.RLock()
        self._writing = False
        with _our_errors(self._backend):
            self._connection = self._backend.connect()
            self._prepare()

    @property
    def shown(self) -> str:
        """The address, as messages name it."""
        return self._backend.shown

    def close(self) -> None:
        self._connection.close()

    def __del__(self) -> None:
        with suppress(Exception):
            self._connection.close()

    def read(self, statement: str, *values: Any) -> list[Row]:
        def rows() -> list[Row]:
            fetched: list[Row] = self._backend.run(self._connection, statement, values).fetchall()
            return fetched

        with self._lock, _our_errors(self._backend):
            return rows() if self._writing else self._reconnecting(rows)

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
        with self._lock, _our_errors(self._backend):
            self._reconnecting(lambda: self._backend.begin(self._connection))
            self._writing = True
            try:
                yield self
                self._backend.run(self._connection, "COMMIT", ())
            except BaseException:
                with suppress(*self._backend.failures):
                    self._backend.run(self._connection, "ROLLBACK", ())
                raise
            finally:
                self._writing = False

    def _reconnecting(self, work: Callable[[], T]) -> T:
        """Tries once more on a new connection if the server had ended the old one, where nothing was changed
        yet.
        """
        try:
            return work()
        except self._backend.failures:
            if not self._backend.lost(self._connection):
                raise
            self._connection = self._backend.connect()
            return work()

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
        if not self._backend.has_tables(self._connection):
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
