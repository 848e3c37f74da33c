"""The tables of a catalog, as the steps that create them.

A catalog of format n has taken the first n steps; a new one takes them all. SQLite and PostgreSQL both
understand every statement. A step that was released never changes: a change is a new step.
"""

from __future__ import annotations

STEPS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
        """
        CREATE TABLE streams (
            name TEXT PRIMARY KEY,
            declaration TEXT NOT NULL,
            columns TEXT NOT NULL,
            settings TEXT NOT NULL,
            created TEXT NOT NULL
        )""",
        """
        CREATE TABLE subscriptions (
            number BIGINT PRIMARY KEY,
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
            cancelled TEXT
        )""",
        "CREATE INDEX subscriptions_by_name ON subscriptions (name, number)",
        "CREATE UNIQUE INDEX one_active_a_name ON subscriptions (name) WHERE state = 'active'",
        """
        CREATE TABLE control_log (
            version BIGINT PRIMARY KEY,
            stream TEXT NOT NULL REFERENCES streams (name),
            family TEXT NOT NULL,
            action TEXT NOT NULL CHECK (action IN ('activate', 'cancel', 'end')),
            subscription BIGINT REFERENCES subscriptions (number),
            at TEXT NOT NULL,
            created TEXT NOT NULL
        )""",
        "CREATE INDEX control_log_by_family ON control_log (stream, family, version)",
    ),
    (
        "ALTER TABLE subscriptions ADD COLUMN owner TEXT",
        """
        CREATE TABLE tokens (
            id TEXT PRIMARY KEY,
            owner TEXT NOT NULL,
            role TEXT NOT NULL,
            hash TEXT NOT NULL,
            created TEXT NOT NULL,
            revoked TEXT
        )""",
    ),
    (
        """
        CREATE TABLE receivers (
            subscription BIGINT PRIMARY KEY REFERENCES subscriptions (number),
            address TEXT NOT NULL,
            place TEXT NOT NULL,
            sent BIGINT NOT NULL,
            tried TEXT,
            error TEXT,
            ended TEXT
        )""",
    ),
    (
        "DROP INDEX control_log_by_family",
        "ALTER TABLE control_log RENAME TO control_log_before",
        """
        CREATE TABLE control_log (
            version BIGINT PRIMARY KEY,
            stream TEXT NOT NULL REFERENCES streams (name),
            family TEXT NOT NULL,
            action TEXT NOT NULL CHECK (action IN ('activate', 'cancel', 'end', 'rebalance')),
            subscription BIGINT REFERENCES subscriptions (number),
            at TEXT NOT NULL,
            created TEXT NOT NULL
        )""",
        "INSERT INTO control_log SELECT * FROM control_log_before",
        "DROP TABLE control_log_before",
        "CREATE INDEX control_log_by_family ON control_log (stream, family, version)",
    ),
    (
        "ALTER TABLE receivers ADD COLUMN secret TEXT",
        "ALTER TABLE receivers ADD COLUMN reach TEXT",
        """
        UPDATE receivers SET reach = CASE
            WHEN (SELECT owner FROM subscriptions WHERE number = receivers.subscription) IS NULL THEN 'any'
            ELSE 'public' END""",
    ),
    (
        "ALTER TABLE subscriptions ADD COLUMN part_of BIGINT REFERENCES subscriptions (number)",
        """
        UPDATE subscriptions SET part_of = (
            SELECT max(whole.number) FROM subscriptions whole
            WHERE whole.number < subscriptions.number AND whole.created = subscriptions.created
            AND whole.query = subscriptions.query
            AND subscriptions.name
                = whole.name || '/' || CAST(subscriptions.number - whole.number + 1 AS TEXT)
        )""",
        "CREATE INDEX subscriptions_by_whole ON subscriptions (part_of)",
        "DROP INDEX one_active_a_name",
        "CREATE UNIQUE INDEX one_active_a_name ON subscriptions (name) "
        "WHERE state = 'active' AND part_of IS NULL",
    ),
    ("ALTER TABLE subscriptions ADD COLUMN suspended TEXT",),
)

#: What this release reads and writes.
FORMAT = len(STEPS)
