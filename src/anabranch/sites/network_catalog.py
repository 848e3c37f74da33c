"""The network's catalog: what is registered and planned, in one SQLite file beside network.toml.

    with NetworkCatalog(path) as catalog, catalog.change() as state:      # others wait until this one is done
        state["subscriptions"].append(...)

What is planned stands here before any site hears of it. Sites compare it with what they run, at their start
and while they run: an installation that was cut off is completed then.
"""

from __future__ import annotations

import json
import sqlite3
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from anabranch.model.errors import JobError, RunError

#: How long a registration waits for others.
WAIT_S = 30.0
FORMAT = 1


def catalog_path(network: Path) -> Path:
    """Returns where the catalog of a network file is: network.toml has network.sqlite."""
    return network.with_suffix(".sqlite")


def is_network(target: Path | str) -> bool:
    """Whether a target is a network file: a TOML file that names sites."""
    path = Path(target)
    if path.suffix != ".toml" or not path.is_file():
        return False
    try:
        return "site" in tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return False  # whoever reads it as a job says what is wrong


def has_plan(network: Path) -> bool:
    """Whether something was planned for a network file."""
    if not catalog_path(network).exists():
        return False
    with NetworkCatalog(network) as catalog:
        return bool(catalog.state())


class NetworkCatalog:
    def __init__(self, network: Path, create: bool = True) -> None:
        self.path = catalog_path(network)
        if not create and not self.path.exists():
            raise JobError(
                f"the network {network} has not run yet: start it with anabranch sites up {network.name}"
            )
        with self._errors():
            self._connection = sqlite3.connect(self.path, timeout=WAIT_S, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS network (id INTEGER PRIMARY KEY CHECK (id = 1), "
                "format INTEGER NOT NULL, version INTEGER NOT NULL, state TEXT NOT NULL)"
            )

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> NetworkCatalog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def version(self) -> int:
        """Returns how often the state has been changed."""
        with self._errors():
            row = self._connection.execute("SELECT version FROM network").fetchone()
        return 0 if row is None else int(row[0])

    def state(self) -> dict[str, Any]:
        """Returns what is registered and planned; empty before anything is."""
        with self._errors():
            row = self._connection.execute("SELECT format, state FROM network").fetchone()
        if row is None:
            return {}
        if row[0] != FORMAT:
            raise JobError(f"{self.path} has format {row[0]}; this release reads format {FORMAT}")
        found: dict[str, Any] = json.loads(row[1])
        return found

    @contextmanager
    def change(self) -> Iterator[dict[str, Any]]:
        """Gives the state to change. It is stored when the block ends without an error, and not at all
        otherwise; nobody else changes it meanwhile.
        """
        with self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
        try:
            state = self.state()
            before = json.dumps(state)
            yield state
            text = json.dumps(state)
            if text != before:
                self._connection.execute(
                    "INSERT INTO network VALUES (1, ?, 1, ?) ON CONFLICT (id) "
                    "DO UPDATE SET version = version + 1, state = excluded.state",
                    (FORMAT, text),
                )
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise RunError(f"the network's catalog {self.path} cannot be used: {error}") from error
