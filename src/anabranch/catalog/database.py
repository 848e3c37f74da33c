"""One SQLite file, shared by several processes.

In: statements. Out: rows; errors as ours, with what to do. Never: a transaction that outlives a call.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from anabranch.model.errors import AnabranchError, FormatError, RunError

FORMAT = 2
BUSY_SECONDS = 30

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE streams (
    name TEXT PRIMARY KEY,
    declaration TEXT NOT NULL,
    columns TEXT NOT NULL,
    settings TEXT NOT NULL,
    created TEXT NOT NULL
);
CREATE TABLE subscriptions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    label TEXT NOT NULL UNIQUE,
    stream TEXT NOT NULL REFERENCES streams (name),
    family TEXT NOT NULL,
    kind TEXT NOT NULL,
    query TEXT NOT NULL,
    spec TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('active', 'cancelled')),
    activate TEXT NOT NULL,
    cancel TEXT NOT NULL,
    origin TEXT NOT NULL,
    created TEXT NOT NULL,
    cancelled TEXT,
    owner TEXT
);
CREATE INDEX subscriptions_by_name ON subscriptions (name, number);
CREATE UNIQUE INDEX one_active_a_name ON subscriptions (name) WHERE state = 'active';
CREATE TABLE control_log (
    version INTEGER PRIMARY KEY AUTOINCREMENT,
    stream TEXT NOT NULL REFERENCES streams (name),
    family TEXT NOT NULL,
    action TEXT NOT NULL CHECK (action IN ('activate', 'cancel', 'end')),
    subscription INTEGER REFERENCES subscriptions (number),
    at TEXT NOT NULL,
    created TEXT NOT NULL
);
CREATE INDEX control_log_by_family ON control_log (stream, family, version);
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    role TEXT NOT NULL,
    hash TEXT NOT NULL,
    created TEXT NOT NULL,
    revoked TEXT
);
"""

#: What makes a catalog of a format one of the next.
MIGRATIONS = {
    1: ("ALTER TABLE subscriptions ADD COLUMN owner TEXT", SCHEMA[SCHEMA.index("CREATE TABLE tokens") :]),
}


class Database:
    """A connection that may be used from several threads, one at a time; each process opens its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        with self._errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = self._connected()
            self._prepare()

    def close(self) -> None:
        self._connection.close()

    def __del__(self) -> None:
        with suppress(AttributeError, sqlite3.Error):
            self._connection.close()

    def read(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock, self._errors():
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A short transaction that has the right to write from its beginning, so that it never has to be
        repeated.
        """
        with self._lock, self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    def _connected(self) -> sqlite3.Connection:
        target = f"file:{quote(str(self.path))}"
        if self.path.exists() and not os.access(self.path.parent, os.W_OK):  # somebody else's results
            target += "?mode=ro" if self.path.with_name(f"{self.path.name}-wal").exists() else "?immutable=1"
        return sqlite3.connect(
            target, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True
        )

    def _prepare(self) -> None:
        found = self._format()
        if found is None:
            self._use_wal()
            with self.writing() as database:
                if self._format() is None:  # nobody else was faster
                    for statement in SCHEMA.split(";\n"):
                        database.execute(statement)
                    database.execute("INSERT INTO meta VALUES ('format', ?)", [str(FORMAT)])
            found = self._format()
        if found in MIGRATIONS:
            found = self._migrated()
        if found != FORMAT:
            raise FormatError(
                f"the catalog {self.path} has format {found}; this release reads format {FORMAT}: use the "
                "release that made it"
            )
        self._connection.execute("PRAGMA foreign_keys = ON")
        self._connection.execute(
            "PRAGMA synchronous = FULL"
        )  # Spark's log must not know a version that was lost

    def _migrated(self) -> int | None:
        """Brings an older catalog up to date, all the way or not at all; another process may be faster."""
        with self.writing() as database:
            while (found := self._format()) in MIGRATIONS:
                for statement in MIGRATIONS[found]:
                    database.execute(statement)
                database.execute("UPDATE meta SET value = ? WHERE key = 'format'", [str(found + 1)])
        return found

    def _format(self) -> int | None:
        if not self.read("SELECT 1 FROM sqlite_master WHERE name = 'meta'"):
            return None
        rows = self.read("SELECT value FROM meta WHERE key = 'format'")
        return int(rows[0][0]) if rows else None

    def _use_wal(self) -> None:
        """Changing the mode does not wait for others as writing does."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except AnabranchError:
            raise
        except sqlite3.OperationalError as error:
            hint = f": another process has kept it for {BUSY_SECONDS} s" if "locked" in str(error) else ""
            raise RunError(f"the catalog {self.path} cannot be used: {error}{hint}") from error
        except sqlite3.DatabaseError as error:
            raise FormatError(f"{self.path} is not a catalog of ours, or is damaged: {error}") from error
        except OSError as error:
            raise RunError(f"the catalog {self.path} cannot be made: {error.strerror}") from error
