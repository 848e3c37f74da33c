"""The catalog in one process: what is kept, what is refused, and what the control log says."""

from __future__ import annotations

import pickle
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.catalog import database
from anabranch.catalog.catalog import Catalog
from anabranch.catalog.database import Address, exists
from anabranch.catalog.entries import NewSubscription
from anabranch.catalog.migrations import FORMAT, STEPS
from anabranch.catalog.receivers import Delivery, DeliveryProgress, Receivers
from anabranch.catalog.tokens import Role, Tokens
from anabranch.model.columns import Column, ColumnType
from anabranch.model.control_log import Activate, Cancel, End, Rebalance
from anabranch.model.errors import AnabranchError, FormatError, JobError, RunError
from tests.catalog.streams import COLUMNS, declaration, photons, registered

SPEC = {"kind": "select", "outputs": [["ra", "ra"]], "condition": ["and"]}
#: The families whose log is read: that of the queries, and the end of the stream.
FILTERS = ("", "filters")


@pytest.fixture
def catalog(address: Address) -> Iterator[Catalog]:
    with Catalog(address) as opened:
        yield registered(opened)


def subscribe(
    catalog: Catalog, name: str, activate: Any = None, query: str = "SELECT ra FROM photons"
) -> int:
    return catalog.subscribe(name, "photons", "filters", "select", query, SPEC, activate)


def log(catalog: Catalog, after: int = 0) -> list[Any]:
    return catalog.log("photons", FILTERS, after, catalog.version("photons", FILTERS))


def activate(number: int, name: str, time: Any = None) -> Activate:
    return Activate(number, name, SPEC, time, "filters")


def cancel(number: int, time: Any = None) -> Cancel:
    return Cancel(number, time, "filters")


# --- threads ---


def test_readers_wait_for_no_writer_and_no_other_reader(catalog: Catalog) -> None:
    """While one thread writes, others of the same process read, several at once."""
    held = threading.Barrier(4)

    def read() -> None:
        with catalog._database._connections.one():
            held.wait(20)  # passes only if three have a connection, beside the one that writes
        catalog.subscriptions()

    readers = [threading.Thread(target=read) for _ in range(3)]
    with catalog._database.writing():
        for reader in readers:
            reader.start()
        held.wait(20)
        for reader in readers:
            reader.join(20)
    assert not any(reader.is_alive() for reader in readers)


def test_threads_that_write_and_read(catalog: Catalog) -> None:
    """A transaction is that of its thread: what others read is never half of it."""
    wrong: list[Any] = []

    def write(who: int) -> None:
        for n in range(10):
            new = [f"{who}-{n}-{part}" for part in range(3)]
            catalog.subscribe_many(
                [NewSubscription(name, "photons", "filters", "select", "", SPEC) for name in new]
            )

    def read() -> None:
        for _ in range(40):
            count = len(catalog.subscriptions())
            if count % 3:
                wrong.append(count)

    work = [*(threading.Thread(target=write, args=(who,)) for who in range(3))]
    work += [threading.Thread(target=read) for _ in range(5)]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert wrong == []
    assert len(catalog.subscriptions()) == 90


# --- streams ---


def test_a_stream_comes_back_as_it_was(catalog: Catalog) -> None:
    settings: dict[str, Any] = {
        "position": ["ra", "dec"],
        "regions": ((0.0, 0.0, 1.0, 1.0), (1.0, 0.0, 2.0, 1.0)),
        "bounds": ((0.0, 360.0), (-90.0, 90.0)),
        "lateness": 2.5,
        "expire": 9,
        "metric": "haversine",
        "unit": "m",
    }
    wanted = declaration("units", **settings)
    stream = photons(name="units", **settings)
    catalog.register_stream(stream, wanted)
    assert catalog.stream("units") == stream
    assert list(catalog.streams()) == ["photons", "units"]
    assert catalog.declaration("units").source == wanted.source


def test_the_same_stream_again_is_no_error(catalog: Catalog) -> None:
    registered(catalog)
    assert list(catalog.streams()) == ["photons"]


def test_a_reader_option_more_is_no_other_stream(catalog: Catalog) -> None:
    other = declaration()
    other.source.options["maxFilesPerTrigger"] = 5  # type: ignore[index]
    catalog.register_stream(photons(), other)


@pytest.mark.parametrize(
    ("settings", "columns", "said"),
    [
        ({"lateness": 5}, COLUMNS, "lateness was 0, is 5 now"),
        ({"time": "en"}, COLUMNS, 'time was "det_time", is "en" now'),
        ({"id": "name"}, COLUMNS, 'id was not set, is "name" now'),
        ({"path": "/other"}, COLUMNS, 'source path was "/data/photons", is "/other" now'),
        ({}, (*COLUMNS, Column("phc", ColumnType.INT)), "column phc is new"),
        ({}, COLUMNS[:-1], "column name is gone"),
        ({}, (*COLUMNS[:-1], Column("name", ColumnType.INT)), "column name was string, is int now"),
        ({}, COLUMNS[::-1], "the columns were in the order det_time, ra"),
    ],
)
def test_another_stream_under_a_known_name(
    catalog: Catalog, settings: dict[str, Any], columns: Any, said: str
) -> None:
    from anabranch.job.declarations import declare

    wanted = declaration(**settings)
    with pytest.raises(
        JobError, match="stream photons is not the one that this job ran with before"
    ) as caught:
        catalog.register_stream(declare(wanted, columns), wanted)
    assert said in str(caught.value)
    assert "undo the change, or choose another sink" in str(caught.value)


def test_an_unknown_stream(catalog: Catalog) -> None:
    with pytest.raises(JobError, match=r"unknown stream 'photon'; did you mean 'photons'\?"):
        catalog.stream("photon")
    with pytest.raises(JobError, match=r"subscription a: unknown stream 'photon'; did you mean 'photons'\?"):
        catalog.subscribe("a", "photon", "filters", "select", "", SPEC)


# --- subscriptions ---


def test_numbers_ascend_and_are_never_used_again(catalog: Catalog) -> None:
    assert [subscribe(catalog, "a"), subscribe(catalog, "b")] == [1, 2]
    catalog.cancel("b")
    assert subscribe(catalog, "c") == 3
    assert [entry.name for entry in catalog.subscriptions()] == ["a", "c"]
    assert [entry.state for entry in catalog.subscriptions(state=None)] == ["active", "cancelled", "active"]
    assert (catalog.count(), catalog.count(state=None)) == (2, 3)


def test_a_name_is_free_again_once_it_is_cancelled(catalog: Catalog) -> None:
    subscribe(catalog, "vela")
    with pytest.raises(JobError, match=r"the name 'vela' is taken .*SELECT ra FROM photons.*cancel it first"):
        subscribe(catalog, "vela")
    catalog.cancel("vela")
    assert subscribe(catalog, "vela", query="SELECT dec FROM photons") == 2
    newest = catalog.subscription("vela")
    assert (newest.number, newest.active, newest.query) == (2, True, "SELECT dec FROM photons")


def test_results_of_two_subscriptions_with_one_name_stay_apart(catalog: Catalog) -> None:
    subscribe(catalog, "vela#2")  # somebody chose the label that the third one would get
    subscribe(catalog, "vela")
    catalog.cancel("vela")
    subscribe(catalog, "vela")
    labels = [control.name for control in log(catalog) if isinstance(control, Activate)]
    assert labels == ["vela#2", "vela", "vela#3"]
    assert catalog.subscription("vela#3") == catalog.subscription("vela")


def test_cancel(catalog: Catalog) -> None:
    subscribe(catalog, "vela")
    entry = catalog.cancel("vela", time=7.5)
    assert (entry.state, entry.cancel) == ("cancelled", 7.5)
    assert catalog.cancel("vela", time=5).cancel == 5  # an end that lies ahead can be moved forward
    assert catalog.cancel("vela").cancel is None
    with pytest.raises(JobError, match="subscription 'vela' is cancelled already"):
        catalog.cancel("vela")
    assert log(catalog)[1:] == [cancel(1, 7.5), cancel(1, 5), cancel(1)]


def test_who_is_suspended_keeps_its_name_and_can_be_cancelled(catalog: Catalog) -> None:
    subscribe(catalog, "vela")
    catalog.suspend(1, "at item 7: it would give 9 windows")
    entry = catalog.subscription("vela")
    assert (entry.active, entry.suspended) == (True, "at item 7: it would give 9 windows")
    with pytest.raises(JobError, match="vela"):
        subscribe(catalog, "vela")
    assert catalog.cancel("vela").state == "cancelled"
    subscribe(catalog, "vela")
    assert catalog.subscription("vela").suspended is None


def test_cancel_of_what_is_not_there(catalog: Catalog) -> None:
    subscribe(catalog, "vela")
    with pytest.raises(
        JobError, match=r"unknown subscription 'vella'; did you mean 'vela'\? There are: vela"
    ):
        catalog.cancel("vella")


def test_all_or_nothing(catalog: Catalog) -> None:
    subscribe(catalog, "b")
    new = [NewSubscription(name, "photons", "filters", "select", "", SPEC) for name in ("a", "b", "c")]
    with pytest.raises(JobError, match="'b' is taken"):
        catalog.subscribe_many(new)
    with pytest.raises(JobError, match="'a' is there twice"):
        catalog.subscribe_many([new[0], new[2], new[0]])
    assert [entry.name for entry in catalog.subscriptions()] == ["b"]
    assert catalog.version("photons", FILTERS) == 1


@pytest.mark.slow
def test_ten_thousand_at_once(catalog: Catalog) -> None:
    new = [NewSubscription(f"q{n}", "photons", "filters", "select", "SELECT", SPEC) for n in range(10_000)]
    started = time.process_time()
    assert catalog.subscribe_many(new) == list(range(1, 10_001))
    assert time.process_time() - started < 5  # about half a second where nothing else runs
    assert len(log(catalog)) == 10_000


# --- the control log ---


def test_the_log(catalog: Catalog) -> None:
    subscribe(catalog, "a")
    subscribe(catalog, "b", activate=5)
    first = catalog.version("photons", FILTERS)
    catalog.subscribe("n", "photons", "nearest", "nearest", "", {"kind": "nearest"})
    catalog.cancel("a", time=9)
    catalog.end("photons")
    a, b = activate(1, "a"), activate(2, "b", 5)
    n = Activate(3, "n", {"kind": "nearest"}, None, "nearest")
    assert log(catalog) == [a, b, cancel(1, 9), End()]
    assert log(catalog, after=first) == [cancel(1, 9), End()]
    assert catalog.log("photons", FILTERS, 0, first) == [a, b]
    assert catalog.log("photons", ["nearest"], 0, 99) == [n]
    assert catalog.log("photons", [*FILTERS, "nearest"], 0, 99) == [a, b, n, cancel(1, 9), End()]
    assert catalog.families("photons") == ("filters", "nearest")
    assert catalog.families("other") == ()
    assert catalog.version("photons", ["moving"]) == 0


def test_zones_are_asked_to_share_their_work_again(catalog: Catalog) -> None:
    catalog.rebalance("photons", "nearest")
    assert catalog.log("photons", ["filters", "nearest"], 0, 9) == [Rebalance("nearest")]


def test_an_end_is_logged_once(catalog: Catalog) -> None:
    version = catalog.end("photons")
    assert catalog.end("photons") == version
    apart = catalog.end("photons", ["clusters"])  # it reads the stream on its own
    assert catalog.end("photons", ["clusters"]) == apart > version
    assert catalog.log("photons", FILTERS, 0, 9) == catalog.log("photons", ["clusters"], 0, 9) == [End()]
    catalog.subscribe("later", "photons", "clusters", "clusters", "", {"kind": "clusters"})
    assert catalog.end("photons", ["clusters"]) > apart
    assert catalog.end("photons", ["", "filters"]) == version
    subscribe(catalog, "last")
    assert catalog.end("photons", ["", "filters"]) > version


def test_a_subscription_with_both_times(catalog: Catalog) -> None:
    new = NewSubscription("a", "photons", "filters", "select", "", SPEC, activate=1, cancel=2.5)
    catalog.subscribe_many([new])
    assert log(catalog) == [activate(1, "a", 1), cancel(1, 2.5)]
    assert catalog.subscription("a").active


def test_facts(catalog: Catalog) -> None:
    assert catalog.meta("job") is None
    catalog.set_meta("job", {"fingerprint": [1, 2]})
    catalog.set_meta("job", "again")
    assert catalog.meta("job") == "again"


# --- receivers ---


def test_receivers(catalog: Catalog, address: Address) -> None:
    part = NewSubscription("a/2", "photons", "filters", "select", "", SPEC, receiver="https://x.org/")
    whole = NewSubscription("a", "photons", "filters", "select", "", SPEC, parts=(part,))
    late = NewSubscription(
        "b", "photons", "filters", "select", "", SPEC, receiver="kafka:t@b:1", cursor="7:0"
    )
    assert catalog.subscribe_many([whole, late]) == [1, 3]
    assert catalog.receivers() == {2: "https://x.org/", 3: "kafka:t@b:1"}
    receivers = Receivers(address)
    assert [(entry.name, sent.cursor) for entry, sent in receivers.open()] == [("a/2", "0:0"), ("b", "7:0")]
    failed = DeliveryProgress(2, "4:1", 9, "then", "no answer", None)
    receivers.save([failed, DeliveryProgress(3, "8:0", 2**40, "then", None, "now")])
    receivers.save([])
    assert receivers.all() == {
        2: Delivery("https://x.org/", "4:1", 9, "then", "no answer", None, receivers.secret(2), "any"),
        3: Delivery("kafka:t@b:1", "8:0", 2**40, "then", None, "now", None, "any"),
    }
    assert [entry.number for entry, _ in receivers.open()] == [2]
    receivers.close()


def test_a_catalog_has_an_identity(catalog: Catalog) -> None:
    assert catalog.identity() == catalog.identity() != ""


# --- the database ---


def test_a_catalog_outlives_its_process(address: Address) -> None:
    with Catalog(address) as first:
        subscribe(registered(first), "vela", activate=3)
        first.cancel("vela", 8)
        before = log(first)
    with Catalog(address) as second:
        assert log(second) == before
        assert second.stream("photons") == photons()


def test_it_travels_as_its_address(catalog: Catalog) -> None:
    subscribe(catalog, "vela")
    with pickle.loads(pickle.dumps(catalog)) as other:
        assert other.subscription("vela") == catalog.subscription("vela")


def test_none_yet(address: Address) -> None:
    for _ in range(2):  # looking makes none
        assert not exists(address)
        with pytest.raises(JobError, match="run the job once first"):
            Catalog.existing(address)


def test_a_catalog_of_an_earlier_release(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    """Format 1 knew neither owners nor tokens; what it had stays."""
    with monkeypatch.context() as earlier:
        earlier.setattr(database, "FORMAT", 1)
        earlier_one = database.Database(address)
    with earlier_one.writing():
        earlier_one.write("INSERT INTO streams VALUES ('s', '{}', '[]', '{}', '')")
        earlier_one.write(
            "INSERT INTO subscriptions VALUES (7, 'q', 'q', 's', 'filters', 'select', 'SELECT', '{}', "
            "'active', 'null', 'null', 'job', '', NULL)"
        )
    earlier_one.close()
    for _ in range(2):  # the second finds it up to date
        with Catalog(address) as catalog:
            assert (catalog.subscription("q").query, catalog.subscription("q").owner) == ("SELECT", None)
            assert catalog.subscriptions(owner="ann") == []
    tokens = Tokens(address)
    assert tokens.known(tokens.create("ann", Role.USER)) is not None
    tokens.close()


def test_parts_and_receivers_of_an_earlier_release(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts were known by their names; those that only look like one are none. Receivers had no secret."""
    with monkeypatch.context() as earlier:
        earlier.setattr(database, "FORMAT", 4)
        earlier_one = database.Database(address)
    names = [
        ("q", "<a/>", "t"),
        ("q/2", "<a/>", "t"),
        ("q/3", "<a/>", "t"),
        ("r", "<a/>", "u"),
        ("r/2", "<a/>", "v"),
    ]
    with earlier_one.writing():
        earlier_one.write("INSERT INTO streams VALUES ('s', '{}', '[]', '{}', '')")
        for number, (name, query, created) in enumerate(names, 1):
            earlier_one.write(
                "INSERT INTO subscriptions VALUES (?, ?, ?, 's', 'filters', 'select', ?, '{}', "
                "'active', 'null', 'null', 'job', ?, NULL, ?)",
                *(number, name, name, query, created, "ann" if number > 3 else None),
            )
        for number in (1, 4):
            earlier_one.write(
                "INSERT INTO receivers VALUES (?, 'https://x.org/', '0:0', 0, NULL, NULL, NULL)", number
            )
    earlier_one.close()
    with Catalog(address) as catalog:
        assert [e.part_of for e in catalog.subscriptions()] == [None, 1, 1, None, None]
        assert [e.number for e in catalog.parts(catalog.subscription("q"))] == [2, 3]
        assert catalog.parts(catalog.subscription("r")) == []
    receivers = Receivers(address)
    found = {number: (one.secret, one.reach) for number, one in receivers.all().items()}
    assert found == {1: (None, "any"), 4: (None, "public")}
    receivers.close()


def test_half_a_step_is_none(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(database, "STEPS", (*STEPS[:-1], (*STEPS[-1], "CREATE TABLE meta (key TEXT)")))
        with pytest.raises(AnabranchError):
            Catalog(address)
    with registered(Catalog(address)) as catalog:
        assert subscribe(catalog, "vela") == 1


def test_a_catalog_of_a_later_release(address: Address) -> None:
    later = database.Database(address)
    with later.writing():
        later.write("UPDATE meta SET value = '99' WHERE key = 'format'")
    later.close()
    with pytest.raises(FormatError, match=f"has format 99; this release reads format {FORMAT}"):
        Catalog(address)


def test_not_a_catalog(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    path.write_bytes(b"something else" * 100)
    with pytest.raises(FormatError, match="is not a catalog of ours, or is damaged"):
        Catalog(path)


# --- a server ---


def test_a_connection_that_the_server_ended_is_opened_again(postgres: str, postgres_catalog: str) -> None:
    import psycopg

    with registered(Catalog(postgres_catalog)) as catalog:
        for count, use in enumerate((lambda: subscribe(catalog, "a"), lambda: catalog.subscription("a"))):
            with psycopg.connect(postgres, autocommit=True) as other:
                ended = other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name = 'anabranch' AND pid <> pg_backend_pid()"
                ).fetchall()
            assert ended, count
            use()
        assert catalog.count() == 1


def test_a_server_that_does_not_answer(postgres_catalog: str) -> None:
    away = "postgresql://ann:secret@127.0.0.1:1/none"
    with pytest.raises(RunError, match=r"ann:\*\*\*@127.0.0.1:1/none cannot be used") as caught:
        Catalog(away)
    assert "secret" not in str(caught.value)


def test_without_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(JobError, match=r'needs the package psycopg: pip install "anabranch\[postgres\]"'):
        Catalog("postgresql://127.0.0.1/none")
