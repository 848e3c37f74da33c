"""The database of a catalog, SQLite or PostgreSQL, shared by several processes.

In: an address and statements, which mark values with ? and are understood by both. Out: rows; errors as ours,
with what to do. Never: a transaction that outlives a call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from anabranch.catalog.migrations import FORMAT, STEPS
from anabranch.catalog.postgres import SCHEMES, Postgres
from anabranch.catalog.sqlite import Sqlite
from anabranch.model.errors import AnabranchError, FormatError

T = TypeVar("T")

#: The path of a SQLite file, or the URL of a PostgreSQL database.
Address = Path | str


class Backend(Protocol):
    """What differs between the two."""

    failures: tuple[type[Exception], ...]

    @property
    def shown(self) -> str: ...

    def there(self) -> bool:
        """Whether a catalog is there already."""

    def connected(self) -> Any: ...

    def has_tables(self, connection: Any, /) -> bool: ...

    def lost(self, connection: Any, /) -> bool:
        """Whether the server ended the connection."""

    def begin(self, connection: Any, /) -> None:
        """Begins a transaction that nobody else's overlaps."""

    def run(self, connection: Any, statement: str, values: tuple[Any, ...], /) -> Any: ...

    def run_many(self, connection: Any, statement: str, rows: list[tuple[Any, ...]], /) -> Any: ...

    def error(self, error: Exception, /) -> AnabranchError: ...


def backend_of(address: Address) -> Backend:
    if isinstance(address, str) and address.startswith(SCHEMES):
        return Postgres(address)
    return Sqlite(Path(address))


def shown(address: Address) -> str:
    """As messages name it: without a password."""
    return backend_of(address).shown


def exists(address: Address) -> bool:
    """Whether there is a catalog; none is made."""
    backend = backend_of(address)
    with _ours(backend):
        return backend.there()


class Database:
    """A connection that may be used from several threads, one at a time; each process opens its own."""

    def __init__(self, address: Address) -> None:
        self._backend = backend_of(address)
        self._lock = threading.RLock()
        self._writing = False
        with _ours(self._backend):
            self._connection = self._backend.connected()
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

    def read(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        def rows() -> list[tuple[Any, ...]]:
            found: list[tuple[Any, ...]] = self._backend.run(self._connection, statement, values).fetchall()
            return found

        with self._lock, _ours(self._backend):
            return rows() if self._writing else self._again(rows)

    def write(self, statement: str, *values: Any) -> None:
        """Inside `writing` only."""
        assert self._writing
        self._backend.run(self._connection, statement, values)

    def write_many(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        assert self._writing
        self._backend.run_many(self._connection, statement, rows)

    @contextmanager
    def writing(self) -> Iterator[Database]:
        """A short transaction. One writes at a time, whatever the process: what was read in it still holds
        when it ends.
        """
        with self._lock, _ours(self._backend):
            self._again(lambda: self._backend.begin(self._connection))
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

    def _again(self, work: Callable[[], T]) -> T:
        """Once more on a new connection if the server had ended the old one; nothing was changed on it."""
        try:
            return work()
        except self._backend.failures:
            if not self._backend.lost(self._connection):
                raise
            self._connection = self._backend.connected()
            return work()

    def _prepare(self) -> None:
        """Takes the steps that are missing, all of them or none."""
        found = self._format()
        if found < FORMAT:
            with self.writing():
                for step in range(self._format(), FORMAT):  # another process may have been faster
                    for statement in STEPS[step]:
                        self.write(statement)
                    self.write("DELETE FROM meta WHERE key = 'format'")
                    self.write("INSERT INTO meta VALUES ('format', ?)", str(step + 1))
            found = self._format()
        if found != FORMAT:
            raise FormatError(
                f"the catalog {self.shown} has format {found}; this release reads format {FORMAT}: use the "
                "release that made it"
            )

    def _format(self) -> int:
        """0 where there is nothing yet."""
        if not self._backend.has_tables(self._connection):
            return 0
        rows = self.read("SELECT value FROM meta WHERE key = 'format'")
        return int(rows[0][0]) if rows else 0


@contextmanager
def _ours(backend: Backend) -> Iterator[None]:
    try:
        yield
    except AnabranchError:
        raise
    except backend.failures as error:
        raise backend.error(error) from error
