"""A catalog in a schema of a PostgreSQL database, by URL: postgresql://user@host:5432/database

The URL is one that libpq reads; passwords are better left to PGPASSWORD or ~/.pgpass. No message shows a
password.

One process writes at a time, by an advisory lock that a transaction holds from its beginning to its end.
PostgreSQL releases it after the transaction is visible, so versions appear in their order as they do in
SQLite.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from anabranch.model.errors import AnabranchError, FormatError, JobError, RunError

if TYPE_CHECKING:
    import psycopg

BUSY_S = 30
CONNECT_S = 10
_LOCK = 0x616E6162  # "anab"


class Postgres:
    """The backend of a URL."""

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError:
            raise JobError(
                f"a catalog in PostgreSQL ({without_password(url)}) needs the package psycopg: "
                'pip install "anabranch[postgres]"'
            ) from None
        from psycopg.rows import dict_row

        self.url, self.driver, self._rows = url, psycopg, dict_row
        self.failures: tuple[type[Exception], ...] = (psycopg.Error,)

    @property
    def shown(self) -> str:
        return without_password(self.url)

    def exists(self) -> bool:
        with closing(self.connect()) as connection:
            return self.has_tables(connection)

    def connect(self) -> psycopg.Connection[Any]:
        return self.driver.connect(
            self.url,
            autocommit=True,
            row_factory=self._rows,
            application_name="anabranch",
            connect_timeout=CONNECT_S,
            prepare_threshold=None,  # poolers in between lose prepared statements
            keepalives_idle=30,  # a connection notices that its server has gone, also where nothing is sent
            keepalives_interval=10,
            keepalives_count=3,
        )

    def has_tables(self, connection: psycopg.Connection[Any]) -> bool:
        return bool(connection.execute("SELECT 1 WHERE to_regclass('meta') IS NOT NULL").fetchall())

    def lost(self, connection: psycopg.Connection[Any]) -> bool:
        return bool(connection.closed)

    def begin(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute("BEGIN")
        connection.execute(f"SET LOCAL lock_timeout = '{BUSY_S}s'".encode())
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))

    def run(
        self, connection: psycopg.Connection[Any], statement: str, values: tuple[Any, ...]
    ) -> psycopg.Cursor[Any]:
        return connection.execute(_marked(statement), values)

    def run_many(
        self, connection: psycopg.Connection[Any], statement: str, rows: list[tuple[Any, ...]]
    ) -> psycopg.Cursor[Any]:
        cursor = connection.cursor()
        cursor.executemany(_marked(statement), rows)
        return cursor

    def error(self, error: Exception) -> AnabranchError:
        message = " ".join(str(error).split())
        known = self.driver.errors
        match error:
            case known.LockNotAvailable():
                return RunError(
                    f"the catalog {self.shown} cannot be used: another process has kept it for {BUSY_S} s"
                )
            case known.UndefinedTable() | known.UndefinedColumn():
                return FormatError(f"{self.shown} is not a catalog of ours, or is damaged: {message}")
            case known.DataError():
                return JobError(f"the catalog {self.shown} cannot keep that: {message}")
        return RunError(f"the catalog {self.shown} cannot be used: {message}")


def _marked(statement: str) -> bytes:
    """Our statements mark values with ?, as SQLite does; none has a ? or % of its own."""
    return statement.replace("?", "%s").encode()


def without_password(url: str) -> str:
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    name, mark, _ = user.partition(":")
    kept = "&".join(each for each in parts.query.split("&") if not each.startswith("password="))
    netloc = f"{name}:***@{host}" if mark else parts.netloc
    return urlunsplit(parts._replace(netloc=netloc, query=kept))
