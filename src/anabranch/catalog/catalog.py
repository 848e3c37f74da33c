"""The catalog: streams, subscriptions and the control log, in SQLite or PostgreSQL.

It keeps queries that are bound already (registration.py), and a control log that running streams follow. The
versions of the log only grow, and the log of a stream up to a version never changes. Nothing is
deleted from either table, and no number is used twice.

Several processes use the catalog at once: a job that runs, and commands that subscribe and cancel. Readers do
not wait for writers, writers wait for each other. One writes at a time, so versions become visible in their
order: a reader that has seen version 7 will never see a new 6.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from types import TracebackType
from typing import Any

from anabranch.catalog.database import Address, Database, Row, exists, now, shown
from anabranch.catalog.entries import (
    ACTIVE,
    CANCELLED,
    ENTRY_COLUMNS,
    Entry,
    NewSubscription,
    differences,
    dump_declaration,
    dump_stream,
    entry_of,
    entry_row,
    load_declaration,
    load_stream,
    source_differences,
)
from anabranch.catalog.receivers import new_secret, receiver_row
from anabranch.model.control_log import Activate, Cancel, Control, End, Rebalance
from anabranch.model.errors import JobError, NameTaken, TooManyError
from anabranch.model.job import StreamDeclaration
from anabranch.model.stream import Stream, Time
from anabranch.model.subscription import ADDRESS
from anabranch.model.suggestions import suggestion

#: So many names are looked up at once; both databases take more.
NAMES_AT_ONCE = 500

_SELECT = f"SELECT {', '.join(ENTRY_COLUMNS)} FROM subscriptions"


class Catalog:
    """Opens a catalog, or creates one. May be used from several threads; each process opens its own."""

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
        """Opens the catalog of a job that has run; JobError where there is none."""
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
        """Adds a stream. One that is known must be the same: state and results come from it."""
        columns = json.dumps([[column.name, column.type.value] for column in stream.columns])
        settings = json.dumps(dump_stream(stream))
        with self._database.writing() as database:
            rows = database.read(
                "SELECT declaration, columns, settings FROM streams WHERE name = ?", stream.name
            )
            if not rows:
                row = {"name": stream.name, "declaration": dump_declaration(declaration)}
                row |= {"columns": columns, "settings": settings, "created": now()}
                database.insert("streams", [row])
                return
            before = load_declaration(rows[0]["declaration"])
            old = load_stream(stream.name, rows[0]["columns"], rows[0]["settings"])
            changes = "; ".join([*source_differences(before, declaration), *differences(old, stream)])
            if changes:
                raise JobError(
                    f"stream {stream.name} is not the one that this job ran with before: {changes}. "
                    f"What the catalog {self._database.shown} holds belongs to the old one: undo the change, "
                    "or choose another sink"
                )
            database.write("UPDATE streams SET settings = ? WHERE name = ?", settings, stream.name)

    def stream(self, name: str) -> Stream:
        streams = self.streams()
        if name not in streams:
            raise JobError(unknown_stream(name, streams))
        return streams[name]

    def streams(self) -> dict[str, Stream]:
        rows = self._database.read("SELECT name, columns, settings FROM streams ORDER BY created, name")
        return {row["name"]: load_stream(**row) for row in rows}

    def declaration(self, name: str) -> StreamDeclaration:
        text = self._database.read_value("SELECT declaration FROM streams WHERE name = ?", name)
        if text is None:
            raise JobError(unknown_stream(name, self.streams()))
        return load_declaration(text)

    # subscriptions

    def subscribe(
        self,
        name: str,
        stream: str,
        family: str,
        kind: str,
        query: str,
        spec: dict[str, Any],
        activate: Time | None = None,
    ) -> int:
        """Adds one bound query and logs its activation. Returns its number."""
        return self.subscribe_many([NewSubscription(name, stream, family, kind, query, spec, activate)])[0]

    def subscribe_many(self, new: Sequence[NewSubscription], limit: int | None = None) -> list[int]:
        """Adds all of them with their parts or, if one cannot be added, none; logs their activations.

        Returns their numbers; the numbers of its parts follow the number of each. `limit` is how many active
        subscriptions an owner may have.
        """
        with self._database.writing() as database:
            every = [each for one in new for each in (one, *one.parts)]
            if limit is not None:
                _check_limit(database, every, limit)
            _check_streams(database, every)
            first = int(database.read_value("SELECT coalesce(max(number), 0) FROM subscriptions")) + 1
            wholes = _wholes(new, first)
            labels, created = _labels(database, every, wholes, first), now()
            secrets = [secret for one in new for secret in [new_secret()] * (1 + len(one.parts))]
            entries, log, receivers = [], [], []
            for number, (one, label) in enumerate(zip(every, labels, strict=True), first):
                entries.append(_new_entry(one, number, label, created, wholes[number - first]))
                log.append(_log_row(entries[-1], "activate", one.activate, created))
                if one.cancel is not None:
                    log.append(_log_row(entries[-1], "cancel", one.cancel, created))
                if one.receiver is not None:
                    receivers.append(receiver_row(number, one, secrets[number - first]))
            database.insert("subscriptions", [entry_row(entry) for entry in entries])
            _append_log(database, log)
            database.insert("receivers", receivers)
            return list(accumulate((1 + len(one.parts) for one in new), initial=first))[:-1]

    def cancel(self, name: str, time: Time | None = None) -> Entry:
        """Cancels a subscription: now, or once the stream has passed a time."""
        return self.cancel_many([name], time)[0]

    def cancel_many(self, names: Sequence[str], time: Time | None = None) -> list[Entry]:
        """Cancels all of them or, if one cannot be cancelled, none. A cancellation at a later time can be
        brought forward.
        """
        return self._cancel([self.subscription(name) for name in names], time)

    def cancel_entry(self, entry: Entry, time: Time | None = None) -> Entry:
        """Cancels this very subscription, whoever has its name meanwhile."""
        return self._cancel([entry], time)[0]

    def _cancel(self, wholes: Sequence[Entry], time: Time | None) -> list[Entry]:
        with self._database.writing() as database:
            entries = [each for whole in wholes for each in self._with_parts(self.entry(whole.number), time)]
            for entry in entries:
                if not entry.active and not _earlier(time, entry.cancel):
                    raise JobError(f"subscription {entry.name!r} is cancelled already (at {entry.cancelled})")
                created = now()
                database.write(
                    "UPDATE subscriptions SET state = ?, cancel = ?, cancelled = ? WHERE number = ?",
                    *(CANCELLED, json.dumps(time), created, entry.number),
                )
                _append_log(database, [_log_row(entry, "cancel", time, created)])
        return [self.entry(entry.number) for entry in entries]

    def suspend(self, number: int, reason: str) -> None:
        """Notes that a running stream has suspended a subscription. It keeps its name until it is
        cancelled.
        """
        with self._database.writing() as database:
            database.write("UPDATE subscriptions SET suspended = ? WHERE number = ?", reason, number)

    def _with_parts(self, entry: Entry, time: Time | None) -> list[Entry]:
        if entry.part_of is not None:
            whole = self.entry(entry.part_of).name
            raise JobError(f"{entry.label!r} is a part of subscription {whole!r}: cancel that")
        parts = self.parts(entry)
        kinds = {self.stream(each.stream).time_type for each in (entry, *parts)}
        if time is not None and len(kinds) > 1:
            raise JobError(
                f"subscription {entry.name!r}: its streams tell time in different ways; cancel it now"
            )
        return [entry, *parts]

    def parts(self, entry: Entry) -> list[Entry]:
        """Returns the other parts of a query over several streams."""
        rows = self._database.read(f"{_SELECT} WHERE part_of = ? ORDER BY number", entry.number)
        return [entry_of(row) for row in rows]

    def subscriptions(
        self,
        stream: str | None = None,
        family: str | None = None,
        state: str | None = ACTIVE,
        name: str | None = None,
        owner: str | None = None,
        kind: str | None = None,
    ) -> list[Entry]:
        """Returns those with all of these values, in the order of their numbers; `state` None for active and
        cancelled ones.
        """
        wanted = {"stream": stream, "family": family, "state": state}
        wanted |= {"name": name, "owner": owner, "kind": kind}
        given = {column: value for column, value in wanted.items() if value is not None}
        where = " AND ".join(f"{column} = ?" for column in given) or "1 = 1"
        rows = self._database.read(f"{_SELECT} WHERE {where} ORDER BY number", *given.values())
        return [entry_of(row) for row in rows]

    def lately_active(self, seconds: float) -> list[Entry]:
        """Returns those that are active, or were cancelled so many seconds ago at most."""
        rows = self._database.read(
            f"{_SELECT} WHERE state = ? OR cancelled > ? ORDER BY number", ACTIVE, now(-seconds)
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
        stream: str | None = None,
    ) -> list[Entry]:
        """Returns some of them, with numbers greater than `after`; `search` is looked for in name and query,
        whatever the case of ASCII letters.
        """
        wanted = {"state": state, "owner": owner, "kind": kind, "stream": stream}
        given = {column: value for column, value in wanted.items() if value is not None}
        where = "".join(f" AND {column} = ?" for column in given)
        text = "".join(f"!{letter}" if letter in "!%_" else letter for letter in search.lower())
        rows = self._database.read(
            f"{_SELECT} WHERE number > ?{where} AND "
            "(lower(name) LIKE ? ESCAPE '!' OR lower(query) LIKE ? ESCAPE '!') ORDER BY number LIMIT ?",
            *(after, *given.values(), f"%{text}%", f"%{text}%", limit),
        )
        return [entry_of(row) for row in rows]

    def count(self, state: str | None = ACTIVE) -> int:
        where, values = ("1 = 1", ()) if state is None else ("state = ?", (state,))
        return int(self._database.read_value(f"SELECT count(*) FROM subscriptions WHERE {where}", *values))

    def kinds(self, owner: str | None = None) -> dict[str, int]:
        """Counts the active subscriptions of each kind; of one owner, or of all."""
        whose, values = ("", ()) if owner is None else (" AND owner = ?", (owner,))
        rows = self._database.read(
            f"SELECT kind, count(*) AS number FROM subscriptions WHERE state = ?{whose} "
            "GROUP BY kind ORDER BY kind",
            *(ACTIVE, *values),
        )
        return {row["kind"]: row["number"] for row in rows}

    def entry(self, number: int) -> Entry:
        return entry_of(self._database.read(f"{_SELECT} WHERE number = ?", number)[0])

    def subscription(self, name: str, owner: str | None = None) -> Entry:
        """Returns the newest subscription of that name, or the one whose results are labelled so, or `#12`.
        Of one owner, where one is given: what others have is as if it were not there.
        """
        whose, values = ("", ()) if owner is None else (" AND owner = ?", (owner,))
        where = ["name = ? AND part_of IS NULL", "label = ?"]
        wanted: list[str | int] = [name, name]
        if ADDRESS.fullmatch(name):
            where, wanted = ["number = ?"], [int(name[1:])]
        for condition, value in zip(where, wanted, strict=True):
            rows = self._database.read(
                f"{_SELECT} WHERE {condition}{whose} ORDER BY number DESC LIMIT 1", value, *values
            )
            if rows:
                return entry_of(rows[0])
        rows = self._database.read(
            f"SELECT name FROM subscriptions WHERE part_of IS NULL{whose} GROUP BY name ORDER BY min(number)",
            *values,
        )
        names = [row["name"] for row in rows]
        raise JobError(f"unknown subscription {name!r}{suggestion(name, names)}")

    def receivers(self) -> dict[int, str]:
        """Returns the addresses that results are sent to, by the number of the subscription."""
        rows = self._database.read("SELECT subscription, address FROM receivers")
        return {row["subscription"]: row["address"] for row in rows}

    # the control log

    def end(self, stream: str, families: Sequence[str] = ("",)) -> int:
        """Logs that the stream ends here for these families, unless that is the last thing logged for them.
        Returns the version. The entry is that of the first family; "" stands for all that share the stream.
        """
        with self._database.writing() as database:
            last = database.read(
                "SELECT version, action FROM control_log WHERE stream = ? "
                f"AND family IN ({_marks(families)}) ORDER BY version DESC LIMIT 1",
                *(stream, *families),
            )
            if last and last[0]["action"] == "end":
                return int(last[0]["version"])
            return _append_log(database, [_stream_log_row(stream, families[0], "end", now())])

    def rebalance(self, stream: str, family: str) -> int:
        """Logs that the zones of a family shall share their work again. Returns the version."""
        with self._database.writing() as database:
            return _append_log(database, [_stream_log_row(stream, family, "rebalance", now())])

    def families(self, stream: str) -> tuple[str, ...]:
        """Returns the families that have something in the log of a stream."""
        rows = self._database.read(
            "SELECT DISTINCT family FROM control_log WHERE stream = ? AND family <> '' ORDER BY family",
            stream,
        )
        return tuple(row["family"] for row in rows)

    def version(self, stream: str, families: Sequence[str]) -> int:
        """Returns the version of the last entry for one of the families, 0 if there is none."""
        found = self._database.read_value(
            f"SELECT max(version) FROM control_log WHERE stream = ? AND family IN ({_marks(families)})",
            *(stream, *families),
        )
        return int(found or 0)

    def activation(self, number: int) -> int:
        """Returns the version at which a subscription is activated."""
        return int(
            self._database.read_value(
                "SELECT min(version) FROM control_log WHERE subscription = ? AND action = 'activate'", number
            )
        )

    def log(self, stream: str, families: Sequence[str], after: int, up_to: int) -> list[Control]:
        """Returns the entries for these families with after < version <= up_to, in order."""
        rows = self._database.read(
            "SELECT l.action, l.at, l.family, s.number, s.label, s.spec FROM control_log l "
            "LEFT JOIN subscriptions s ON s.number = l.subscription "
            f"WHERE l.stream = ? AND l.family IN ({_marks(families)}) AND l.version > ? AND l.version <= ? "
            "ORDER BY l.version",
            *(stream, *families, after, up_to),
        )
        return [_control(row) for row in rows]

    # facts about the job

    def identity(self) -> str:
        """Returns an id of this catalog, for receivers that get results from several."""
        if self.meta("identity") is None:
            self.set_meta("identity", uuid.uuid4().hex[:12])
        return str(self.meta("identity"))

    def meta(self, key: str) -> Any:
        """Returns what is kept under a key, None if nothing is."""
        text = self._database.read_value("SELECT value FROM meta WHERE key = ?", key)
        return None if text is None else json.loads(text)

    def set_meta(self, key: str, value: Any) -> None:
        with self._database.writing() as database:
            database.write("DELETE FROM meta WHERE key = ?", key)
            database.insert("meta", [{"key": key, "value": json.dumps(value)}])


def unknown_stream(name: str, streams: Iterable[str]) -> str:
    return f"unknown stream {name!r}{suggestion(name, streams)}"


# new subscriptions, inside a transaction


def _check_limit(database: Database, new: Sequence[NewSubscription], limit: int) -> None:
    for owner, more in Counter(one.owner for one in new).items():
        count = database.read_value(
            "SELECT count(*) FROM subscriptions WHERE state = ? AND coalesce(owner, '') = ?",
            *(ACTIVE, owner or ""),
        )
        if count + more > limit:
            who = owner or "nobody in particular"
            raise TooManyError(f"{who} has {count:,} of {limit:,} subscriptions; cancel one first")


def _check_streams(database: Database, new: Sequence[NewSubscription]) -> None:
    known = [row["name"] for row in database.read("SELECT name FROM streams ORDER BY created, name")]
    for one in new:
        if one.stream not in known:
            raise JobError(f"subscription {one.name}: {unknown_stream(one.stream, known)}")


def _wholes(new: Sequence[NewSubscription], first: int) -> list[int | None]:
    """Returns, for each and its parts in turn, the number of the one that it is a part of."""
    out: list[int | None] = []
    for one in new:
        whole = first + len(out)
        out += [None, *[whole] * len(one.parts)]
    return out


def _labels(
    database: Database, new: Sequence[NewSubscription], wholes: Sequence[int | None], first: int
) -> list[str]:
    """Returns what the results of each are delivered under; NameTaken if a name is taken. A part takes no
    name.
    """
    active, used, taken = _names_in_use(database, sorted({one.name for one in new}))
    out = []
    for number, (one, whole) in enumerate(zip(new, wholes, strict=True), first):
        if whole is None and one.name in active:
            raise _name_taken(one.name, active[one.name])
        label = one.name if one.name not in used else f"{one.name}#{number}"
        while label in taken or (
            label != one.name
            and database.read_value("SELECT count(*) FROM subscriptions WHERE label = ?", label)
        ):
            label += f"#{number}"
        if whole is None:
            active[one.name] = None
        used.add(one.name)
        taken.add(label)
        out.append(label)
    return out


def _names_in_use(
    database: Database, names: Sequence[str]
) -> tuple[dict[str, Row | None], set[str], set[str]]:
    """Returns, of these names, those of active subscriptions with their queries and owners, those that any
    subscription or part has or had, and those that are labels.
    """
    active: dict[str, Row | None] = {}
    used: set[str] = set()
    labels: set[str] = set()
    for start in range(0, len(names), NAMES_AT_ONCE):
        some = names[start : start + NAMES_AT_ONCE]
        marks = ", ".join("?" * len(some))
        rows = database.read(
            f"SELECT name, state, query, owner, part_of FROM subscriptions WHERE name IN ({marks})", *some
        )
        used |= {row["name"] for row in rows}
        active |= {row["name"]: row for row in rows if row["state"] == ACTIVE and row["part_of"] is None}
        rows = database.read(f"SELECT label FROM subscriptions WHERE label IN ({marks})", *some)
        labels |= {row["label"] for row in rows}
    return active, used, labels


def _name_taken(name: str, taken: Row | None) -> JobError:
    """`taken` is what has the name; None: another of those that are being added."""
    if taken is None:
        return JobError(f"the name {name!r} is there twice; names must differ")
    return NameTaken(
        name,
        taken["owner"],
        f"the name {name!r} is taken by an active subscription ({' '.join(taken['query'].split())}); "
        "cancel it first, or choose another name",
    )


def _new_entry(new: NewSubscription, number: int, label: str, created: str, part_of: int | None) -> Entry:
    return Entry(
        number=number,
        name=new.name,
        label=label,
        stream=new.stream,
        family=new.family,
        kind=new.kind,
        query=new.query,
        spec=new.spec,
        state=ACTIVE,
        activate=new.activate,
        cancel=new.cancel,
        origin=new.origin,
        created=created,
        cancelled=None,
        owner=new.owner,
        part_of=part_of,
    )


# the control log


def _log_row(entry: Entry, action: str, time: Time | None, created: str) -> Row:
    row = _stream_log_row(entry.stream, entry.family, action, created)
    return row | {"subscription": entry.number, "at": json.dumps(time)}


def _stream_log_row(stream: str, family: str, action: str, created: str) -> Row:
    row: Row = {"stream": stream, "family": family, "action": action}
    return row | {"subscription": None, "at": "null", "created": created}


def _append_log(database: Database, rows: Sequence[Row]) -> int:
    """Appends to the control log. Returns the version of the last entry."""
    last = int(database.read_value("SELECT coalesce(max(version), 0) FROM control_log"))
    database.insert("control_log", [{"version": n, **row} for n, row in enumerate(rows, last + 1)])
    return last + len(rows)


def _control(row: Row) -> Control:
    family = row["family"]
    match row["action"]:
        case "activate":
            spec, time = json.loads(row["spec"]), json.loads(row["at"])
            return Activate(row["number"], row["label"], spec, time, family)
        case "cancel":
            return Cancel(row["number"], json.loads(row["at"]), family)
        case "rebalance":
            return Rebalance(family)
    return End()


def _marks(values: Sequence[str]) -> str:
    """A question mark for each value."""
    return ", ".join("?" * len(values))


def _earlier(time: Time | None, planned: Time | None) -> bool:
    """Whether a cancellation that was planned for a time is brought forward; no time is now."""
    return planned is not None and (time is None or time < planned)
