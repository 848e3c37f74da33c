"""A catalog in one SQLite file. Readers do not wait for writers (WAL), writers wait for each other."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from anabranch.model.errors import AnabranchError, FormatError, RunError

BUSY_S = 30


class Sqlite:
    """The backend of a path."""

    failures: tuple[type[Exception], ...] = (sqlite3.Error, OSError)

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def shown(self) -> str:
        return str(self.path)

    def exists(self) -> bool:
        return self.path.exists()

    def connect(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        target = f"file:{quote(str(self.path))}"
        if self.path.exists() and not os.access(self.path.parent, os.W_OK):  # somebody else's results
            target += "?mode=ro" if self.path.with_name(f"{self.path.name}-wal").exists() else "?immutable=1"
        connection = sqlite3.connect(
            target, timeout=BUSY_S, isolation_level=None, check_same_thread=False, uri=True
        )
        if not self.has_tables(connection):
            _use_wal(connection)
        connection.row_factory = _row
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")  # Spark's log must not know a version that was lost
        return connection

    def has_tables(self, connection: sqlite3.Connection) -> bool:
        return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchall())

    def lost(self, connection: sqlite3.Connection) -> bool:
        return False

    def begin(self, connection: sqlite3.Connection) -> None:
        """Takes the right to write at the beginning, so that nothing has to be repeated."""
        connection.execute("BEGIN IMMEDIATE")

    def run(self, connection: sqlite3.Connection, statement: str, values: tuple[Any, ...]) -> sqlite3.Cursor:
        return connection.execute(statement, values)

    def run_many(
        self, connection: sqlite3.Connection, statement: str, rows: list[tuple[Any, ...]]
    ) -> sqlite3.Cursor:
        return connection.executemany(statement, rows)

    def error(self, error: Exception) -> AnabranchError:
        match error:
            case sqlite3.OperationalError():
                hint = f": another process has kept it for {BUSY_S} s" if "locked" in str(error) else ""
                return RunError(f"the catalog {self.path} cannot be used: {error}{hint}")
            case OSError():
                return RunError(f"the catalog {self.path} cannot be created: {error.strerror}")
        return FormatError(f"{self.path} is not a catalog of ours, or is damaged: {error}")


def _row(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> dict[str, Any]:
    return {column[0]: value for column, value in zip(cursor.description, values, strict=True)}


def _use_wal(connection: sqlite3.Connection) -> None:
    """SQLite does not wait for others when it changes the mode, as it does when it writes: we do."""
    deadline = time.monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
