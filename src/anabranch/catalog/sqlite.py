"""The catalog: streams, subscriptions and the control log, in one SQLite file.

In: what jobs and people ask for. Out: the control log that running streams follow; its versions only grow,
and the log of a (stream, family) up to a version never changes. Never: a decision about what a query means;
it keeps what was bound.

Several processes use it at once: a job that runs, and commands that subscribe and cancel. Readers do not
wait for writers (WAL), writers wait for each other. SQLite lets one write at a time, so versions become
visible in their order: who has seen version 7 will never find a new 6.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from anabranch.catalog.database import Database
from anabranch.catalog.entries import (
    ACTIVE,
    CANCELLED,
    Entry,
    NewSubscription,
    differences,
    dump_declaration,
    dump_stream,
    entry_of,
    load_declaration,
    load_stream,
    part_name,
    source_differences,
)
from anabranch.catalog.reading import suggestion
from anabranch.model.control import Activate, Cancel, Control, End
from anabranch.model.errors import JobError, TooManyError
from anabranch.model.job import StreamDeclaration
from anabranch.model.stream import Stream, Time

_LOG = "INSERT INTO control_log (stream, family, action, subscription, at, created) VALUES (?, ?, ?, ?, ?, ?)"


class Catalog:
    """Opens a catalog, or makes one. May be used from several threads; each process opens its own."""

    def __init__(self, path: Path | str, create: bool = True) -> None:
        self.path = Path(path)
        if not create and not self.path.exists():
            raise JobError(
                f"there is no catalog yet ({self.path}): run the job once first, "
                "for example anabranch run job.toml --once"
            )
        self._database = Database(self.path)

    @staticmethod
    def existing(path: Path | str) -> Catalog:
        """The catalog of a job that has run; JobError where there is none."""
        return Catalog(path, create=False)

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return Catalog, (self.path,)

    # streams

    def register_stream(self, stream: Stream, declaration: StreamDeclaration) -> None:
        """Makes the stream known. One that is known must be the same: state and results were made from it."""
        columns = json.dumps([[column.name, column.type.value] for column in stream.columns])
        settings = json.dumps(dump_stream(stream))
        with self._database.writing() as database:
            row = database.execute(
                "SELECT declaration, columns, settings FROM streams WHERE name = ?", [stream.name]
            ).fetchone()
            if row is None:
                values = (stream.name, dump_declaration(declaration), columns, settings, _now())
                database.execute("INSERT INTO streams VALUES (?, ?, ?, ?, ?)", values)
                return
            old = load_stream(stream.name, row[1], row[2])
            changes = [*source_differences(load_declaration(row[0]), declaration), *differences(old, stream)]
            said = "; ".join(changes)
            if changes:
                raise JobError(
                    f"stream {stream.name} is not the one that this job ran with before: {said}. "
                    f"Its state is in {self.path.parent}: undo the change, or choose another sink"
                )

    def stream(self, name: str) -> Stream:
        streams = self.streams()
        if name not in streams:
            raise JobError(_unknown_stream(name, streams))
        return streams[name]

    def streams(self) -> dict[str, Stream]:
        rows = self._database.read("SELECT name, columns, settings FROM streams ORDER BY rowid")
        return {name: load_stream(name, columns, settings) for name, columns, settings in rows}

    def declaration(self, name: str) -> StreamDeclaration:
        rows = self._database.read("SELECT declaration FROM streams WHERE name = ?", name)
        if not rows:
            raise JobError(_unknown_stream(name, self.streams()))
        return load_declaration(rows[0][0])

    # subscriptions

    def subscribe(
        self,
        name: str,
        stream: str,
        family: str,
        kind: str,
        query: str,
        spec: dict[str, Any],
        after: Time | None = None,
    ) -> int:
        """Adds a bound query and logs its activation. Returns its number."""
        return self.subscribe_many([NewSubscription(name, stream, family, kind, query, spec, after)])[0]

    def subscribe_many(self, asked: Sequence[NewSubscription], most: int | None = None) -> list[int]:
        """Adds all of them with their parts or, if one cannot be, none. Returns their numbers; those of the
        parts follow the number of each. `most`: so many active ones an owner may have.
        """
        now, wanted = _now(), asked
        asked = [each for new in wanted for each in (new, *new.parts)]
        with self._database.writing() as database:
            last = database.execute("SELECT seq FROM sqlite_sequence WHERE name = 'subscriptions'").fetchone()
            first = (last[0] if last else 0) + 1
            known = {name for (name,) in database.execute("SELECT name FROM streams")}
            if most is not None:
                for owner, more in Counter(new.owner for new in asked).items():
                    self._check_room(database, owner, more, most)
            rows, log = [], []
            labels: set[str] = set()
            for number, new in enumerate(asked, start=first):
                if new.stream not in known:
                    raise JobError(f"subscription {new.name}: {_unknown_stream(new.stream, known)}")
                labels.add(label := self._label(database, new, number, labels))
                bound = (new.stream, new.family, new.kind, new.query, json.dumps(new.spec))
                times = (json.dumps(new.after), json.dumps(new.until))
                rows.append((number, new.name, label, *bound, ACTIVE, *times, new.origin, now, new.owner))
                log.append((new.stream, new.family, "activate", number, times[0], now))
                if new.until is not None:
                    log.append((new.stream, new.family, "cancel", number, times[1], now))
            self._insert(database, rows)
            database.executemany(_LOG, log)
        sizes = [1 + len(new.parts) for new in wanted]
        return [first + sum(sizes[:place]) for place in range(len(sizes))]

    @staticmethod
    def _check_room(database: sqlite3.Connection, owner: str | None, wanted: int, most: int) -> None:
        (count,) = database.execute(
            "SELECT count(*) FROM subscriptions WHERE state = ? AND owner IS ?", (ACTIVE, owner)
        ).fetchone()
        if count + wanted > most:
            raise TooManyError(
                f"{owner or 'nobody in particular'} has {count:,} of {most:,} subscriptions; cancel one first"
            )

    @staticmethod
    def _insert(database: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> None:
        try:
            database.executemany(f"INSERT INTO subscriptions VALUES ({', '.join('?' * 13)}, NULL, ?)", rows)
        except sqlite3.IntegrityError:  # two of the new ones have one name: it was free for each of them
            names = [row[1] for row in rows]
            twice = next(name for name in names if names.count(name) > 1)
            raise JobError(f"the name {twice!r} is there twice; names must differ") from None

    @staticmethod
    def _label(database: sqlite3.Connection, new: NewSubscription, number: int, taken: set[str]) -> str:
        """What the results are delivered under; JobError if the name is taken."""
        row = database.execute(
            "SELECT number, state, query FROM subscriptions WHERE name = ? ORDER BY number DESC LIMIT 1",
            [new.name],
        ).fetchone()
        if row and row[1] == ACTIVE:
            raise JobError(
                f"the name {new.name!r} is taken by an active subscription ({' '.join(row[2].split())}); "
                "cancel it first, or choose another name"
            )
        label = new.name if row is None else f"{new.name}#{number}"
        while (
            label in taken
            or database.execute("SELECT 1 FROM subscriptions WHERE label = ?", [label]).fetchone()
        ):
            label += f"#{number}"
        return label

    def cancel(self, name: str, until: Time | None = None) -> Entry:
        """Ends a subscription: now, or with `until` once the stream's time has passed it."""
        return self.cancel_many([name], until)[0]

    def cancel_many(self, names: Sequence[str], until: Time | None = None) -> list[Entry]:
        """Cancels all of them or, if one cannot be, none. An end that lies ahead can be moved forward."""
        now = _now()
        with self._database.writing() as database:
            ended = []
            for entry in [each for name in names for each in self._with_parts(name, until)]:
                if not entry.active and not _earlier(until, entry.cancel):
                    raise JobError(f"subscription {entry.name!r} is cancelled already (at {entry.cancelled})")
                database.execute(
                    "UPDATE subscriptions SET state = ?, cancel = ?, cancelled = ? WHERE number = ?",
                    (CANCELLED, json.dumps(until), now, entry.number),
                )
                database.execute(
                    _LOG, (entry.stream, entry.family, "cancel", entry.number, json.dumps(until), now)
                )
                ended.append(entry)
        return [self.entry(entry.number) for entry in ended]

    def _with_parts(self, name: str, until: Time | None) -> list[Entry]:
        entry = self.subscription(name)
        parts = self.parts(entry)
        kinds = {self.stream(each.stream).time_type for each in (entry, *parts)}
        if until is not None and len(kinds) > 1:
            raise JobError(f"subscription {name!r}: its streams tell time in different ways; cancel it now")
        return [entry, *parts]

    def parts(self, entry: Entry) -> list[Entry]:
        """The other parts of a query over several streams; they were added right after it."""
        rows = self._database.read(
            "SELECT * FROM subscriptions WHERE number > ? AND query = ? ORDER BY number",
            *(entry.number, entry.query),
        )
        out: list[Entry] = []
        for part in map(entry_of, rows):
            place = len(out) + 1
            if (part.number, part.name) != (entry.number + place, part_name(entry.name, place + 1)):
                break
            out.append(part)
        return out

    def subscriptions(
        self,
        stream: str | None = None,
        family: str | None = None,
        state: str | None = ACTIVE,
        name: str | None = None,
        owner: str | None = None,
        kind: str | None = None,
    ) -> list[Entry]:
        """In the order of their numbers; `state` None for all of them."""
        wanted = {"stream": stream, "family": family, "state": state}
        wanted |= {"name": name, "owner": owner, "kind": kind}
        given = {column: value for column, value in wanted.items() if value is not None}
        where = " AND ".join(f"{column} = ?" for column in given) or "1"
        rows = self._database.read(
            f"SELECT * FROM subscriptions WHERE {where} ORDER BY number", *given.values()
        )
        return [entry_of(row) for row in rows]

    def page(
        self,
        after: int,
        limit: int,
        state: str | None = ACTIVE,
        owner: str | None = None,
        kind: str | None = None,
        search: str = "",
    ) -> list[Entry]:
        """Some of them, with numbers greater than `after`; `search` is looked for in name and query, whatever
        the case of ASCII letters.
        """
        wanted = {"state": state, "owner": owner, "kind": kind}
        given = {column: value for column, value in wanted.items() if value is not None}
        where = "".join(f" AND {column} = ?" for column in given)
        text = "".join(f"!{letter}" if letter in "!%_" else letter for letter in search.lower())
        rows = self._database.read(
            f"SELECT * FROM subscriptions WHERE number > ?{where} AND "
            "(lower(name) LIKE ? ESCAPE '!' OR lower(query) LIKE ? ESCAPE '!') ORDER BY number LIMIT ?",
            *(after, *given.values(), f"%{text}%", f"%{text}%", limit),
        )
        return [entry_of(row) for row in rows]

    def count(self, state: str | None = ACTIVE) -> int:
        where, values = ("1", ()) if state is None else ("state = ?", (state,))
        return int(self._database.read(f"SELECT count(*) FROM subscriptions WHERE {where}", *values)[0][0])

    def kinds(self, owner: str | None = None) -> dict[str, int]:
        """How many active subscriptions of each kind there are; of one owner, or of all."""
        whose = "" if owner is None else " AND owner = ?"
        text = f"SELECT kind, count(*) FROM subscriptions WHERE state = ?{whose} GROUP BY kind ORDER BY kind"
        return dict(self._database.read(text, ACTIVE, *([] if owner is None else [owner])))

    def entry(self, number: int) -> Entry:
        return entry_of(self._database.read("SELECT * FROM subscriptions WHERE number = ?", number)[0])

    def subscription(self, name: str) -> Entry:
        """The newest subscription of that name, or the one whose results are labelled so."""
        rows = self._database.read(
            "SELECT * FROM subscriptions WHERE name = ? ORDER BY number DESC LIMIT 1", name
        )
        rows = rows or self._database.read("SELECT * FROM subscriptions WHERE label = ?", name)
        if rows:
            return entry_of(rows[0])
        names = [
            row[0] for row in self._database.read("SELECT DISTINCT name FROM subscriptions ORDER BY number")
        ]
        raise JobError(f"unknown subscription {name!r}{suggestion(name, names)}")

    # the control log

    def end(self, stream: str, family: str) -> int:
        """Logs that the stream ends here, unless that is the last thing logged. Returns the version."""
        with self._database.writing() as database:
            last = database.execute(
                "SELECT version, action FROM control_log WHERE stream = ? AND family = ? ORDER BY version "
                "DESC LIMIT 1",
                (stream, family),
            ).fetchone()
            if last and last[1] == "end":
                return int(last[0])
            version = database.execute(_LOG, (stream, family, "end", None, "null", _now())).lastrowid
        assert version is not None
        return version

    def families(self, stream: str) -> tuple[str, ...]:
        """The families that have something in the log of a stream."""
        rows = self._database.read(
            "SELECT DISTINCT family FROM control_log WHERE stream = ? ORDER BY family", stream
        )
        return tuple(row[0] for row in rows)

    def version(self, stream: str, family: str) -> int:
        """The version of the last entry, 0 if there is none."""
        row = self._database.read(
            "SELECT max(version) FROM control_log WHERE stream = ? AND family = ?", stream, family
        )[0]
        return int(row[0] or 0)

    def log(self, stream: str, family: str, after_version: int, up_to_version: int) -> list[Control]:
        """The entries with after_version < version <= up_to_version, in order."""
        rows = self._database.read(
            "SELECT l.action, l.at, s.number, s.label, s.spec FROM control_log l "
            "LEFT JOIN subscriptions s ON s.number = l.subscription "
            "WHERE l.stream = ? AND l.family = ? AND l.version > ? AND l.version <= ? ORDER BY l.version",
            *(stream, family, after_version, up_to_version),
        )
        return [_control(*row) for row in rows]

    # facts about the job

    def meta(self, key: str) -> Any:
        """What was kept under a key, None if nothing was."""
        rows = self._database.read("SELECT value FROM meta WHERE key = ?", key)
        return json.loads(rows[0][0]) if rows else None

    def set_meta(self, key: str, value: Any) -> None:
        with self._database.writing() as database:
            database.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(value)))


def _control(action: str, at: str, number: int, label: str, spec: str) -> Control:
    if action == "activate":
        return Activate(number, label, json.loads(spec), json.loads(at))
    return Cancel(number, json.loads(at)) if action == "cancel" else End()


def _unknown_stream(name: str, streams: Iterable[str]) -> str:
    return f"unknown stream {name!r}{suggestion(name, streams)}"


def _earlier(until: Time | None, planned: Time | None) -> bool:
    """Whether an end that was planned for a time is moved forward; no time is now."""
    return planned is not None and (until is None or until < planned)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
