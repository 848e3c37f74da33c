"""The catalog: streams, subscriptions and the control log, in SQLite or PostgreSQL.

In: what jobs and people ask for. Out: the control log that running streams follow; its versions only grow,
and the log of a (stream, family) up to a version never changes. Never: a decision about what a query means;
it keeps what was bound.

Several processes use it at once: a job that runs, and commands that subscribe and cancel. Readers do not
wait for writers, writers wait for each other. One writes at a time, so versions become visible in their
order: who has seen version 7 will never find a new 6.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from anabranch.catalog.asking import Asking, logged, now, unknown_stream
from anabranch.catalog.database import Address, Database, exists, shown
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
from anabranch.model.control import Activate, Cancel, Control, End, Rebalance
from anabranch.model.errors import JobError
from anabranch.model.job import StreamDeclaration
from anabranch.model.stream import Stream, Time


class Catalog:
    """Opens a catalog, or makes one. May be used from several threads; each process opens its own."""

    def __init__(self, address: Address, create: bool = True) -> None:
        self.address = address
        if not create and not exists(address):
            raise JobError(
                f"there is no catalog yet ({shown(address)}): run the job once first, "
                "for example anabranch run job.toml --once"
            )
        self._database = Database(address)

    @staticmethod
    def existing(address: Address) -> Catalog:
        """The catalog of a job that has run; JobError where there is none."""
        return Catalog(address, create=False)

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return Catalog, (self.address,)

    # streams

    def register_stream(self, stream: Stream, declaration: StreamDeclaration) -> None:
        """Makes the stream known. One that is known must be the same: state and results were made from it."""
        columns = json.dumps([[column.name, column.type.value] for column in stream.columns])
        settings = json.dumps(dump_stream(stream))
        with self._database.writing() as database:
            rows = database.read(
                "SELECT declaration, columns, settings FROM streams WHERE name = ?", stream.name
            )
            if not rows:
                values = (stream.name, dump_declaration(declaration), columns, settings, now())
                database.write("INSERT INTO streams VALUES (?, ?, ?, ?, ?)", *values)
                return
            before = load_declaration(rows[0][0])
            old = load_stream(stream.name, rows[0][1], rows[0][2])
            changes = [*source_differences(before, declaration), *differences(old, stream)]
            said = "; ".join(changes)
            if changes:
                raise JobError(
                    f"stream {stream.name} is not the one that this job ran with before: {said}. "
                    f"What the catalog {self._database.shown} knows was made from it: undo the change, or "
                    "choose another sink"
                )
            database.write("UPDATE streams SET settings = ? WHERE name = ?", settings, stream.name)

    def stream(self, name: str) -> Stream:
        streams = self.streams()
        if name not in streams:
            raise JobError(unknown_stream(name, streams))
        return streams[name]

    def streams(self) -> dict[str, Stream]:
        rows = self._database.read("SELECT name, columns, settings FROM streams ORDER BY created, name")
        return {name: load_stream(name, columns, settings) for name, columns, settings in rows}

    def declaration(self, name: str) -> StreamDeclaration:
        rows = self._database.read("SELECT declaration FROM streams WHERE name = ?", name)
        if not rows:
            raise JobError(unknown_stream(name, self.streams()))
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
        with self._database.writing() as database:
            return Asking(database, asked).added(most)

    def cancel(self, name: str, until: Time | None = None) -> Entry:
        """Ends a subscription: now, or with `until` once the stream's time has passed it."""
        return self.cancel_many([name], until)[0]

    def cancel_many(self, names: Sequence[str], until: Time | None = None) -> list[Entry]:
        """Cancels all of them or, if one cannot be, none. An end that lies ahead can be moved forward."""
        with self._database.writing() as database:
            ended = []
            for entry in [each for name in names for each in self._with_parts(name, until)]:
                if not entry.active and not _earlier(until, entry.cancel):
                    raise JobError(f"subscription {entry.name!r} is cancelled already (at {entry.cancelled})")
                at, moment = json.dumps(until), now()
                database.write(
                    "UPDATE subscriptions SET state = ?, cancel = ?, cancelled = ? WHERE number = ?",
                    *(CANCELLED, at, moment, entry.number),
                )
                logged(database, [(entry.stream, entry.family, "cancel", entry.number, at, moment)])
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
        where = " AND ".join(f"{column} = ?" for column in given) or "1 = 1"
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
        where, values = ("1 = 1", ()) if state is None else ("state = ?", (state,))
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
        rows = self._database.read("SELECT name FROM subscriptions GROUP BY name ORDER BY min(number)")
        names = [row[0] for row in rows]
        raise JobError(f"unknown subscription {name!r}{suggestion(name, names)}")

    def receivers(self) -> dict[int, str]:
        """The addresses of the subscriptions that are sent to one, by number."""
        return dict(self._database.read("SELECT subscription, address FROM receivers"))

    # the control log

    def end(self, stream: str, family: str) -> int:
        """Logs that the stream ends here, unless that is the last thing logged. Returns the version."""
        with self._database.writing() as database:
            last = database.read(
                "SELECT version, action FROM control_log WHERE stream = ? AND family = ? ORDER BY version "
                "DESC LIMIT 1",
                *(stream, family),
            )
            if last and last[0][1] == "end":
                return int(last[0][0])
            return logged(database, [(stream, family, "end", None, "null", now())])

    def rebalance(self, stream: str, family: str) -> int:
        """Logs that the zones of a family shall share their work anew. Returns the version."""
        with self._database.writing() as database:
            return logged(database, [(stream, family, "rebalance", None, "null", now())])

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

    def identity(self) -> str:
        """Tells this catalog's subscriptions from those of others, for who receives from several."""
        if self.meta("identity") is None:
            self.set_meta("identity", uuid.uuid4().hex[:12])
        return str(self.meta("identity"))

    def meta(self, key: str) -> Any:
        """What was kept under a key, None if nothing was."""
        rows = self._database.read("SELECT value FROM meta WHERE key = ?", key)
        return json.loads(rows[0][0]) if rows else None

    def set_meta(self, key: str, value: Any) -> None:
        with self._database.writing() as database:
            database.write("DELETE FROM meta WHERE key = ?", key)
            database.write("INSERT INTO meta VALUES (?, ?)", key, json.dumps(value))


def _control(action: str, at: str, number: int, label: str, spec: str) -> Control:
    match action:
        case "activate":
            return Activate(number, label, json.loads(spec), json.loads(at))
        case "cancel":
            return Cancel(number, json.loads(at))
        case "rebalance":
            return Rebalance()
    return End()


def _earlier(until: Time | None, planned: Time | None) -> bool:
    """Whether an end that was planned for a time is moved forward; no time is now."""
    return planned is not None and (until is None or until < planned)
