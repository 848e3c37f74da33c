"""How queries come into the catalog: from a job file that is run, and run again, and one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.database import Address
from anabranch.catalog.receivers import Receivers
from anabranch.catalog.registration import JobSync, bind_subscription, check_queries, register, sync_job
from anabranch.job.declarations import declare
from anabranch.job.job_file import load_job
from anabranch.model.columns import Column, ColumnType
from anabranch.model.control_log import Activate, Cancel
from anabranch.model.errors import JobError, NameTaken, TooManyError
from anabranch.model.job import Job
from anabranch.model.limits import LimitError, QueryLimits
from anabranch.model.subscription import Subscription
from tests.catalog.streams import COLUMNS, declaration, photons, registered
from tests.job.jobs import GOOD, write_job

HEAD = GOOD.partition("[[subscription]]")[0] + '[sink]\nformat = "parquet"\npath = "out"\n'
STREAMS = {"photons": photons()}


@pytest.fixture
def catalog(address: Address) -> Iterator[Catalog]:
    with Catalog(address) as opened:
        yield registered(opened)


def job(folder: Path, **queries: str) -> Job:
    """A job with these subscriptions; a query may be followed by lines with more settings."""
    tables = []
    for name, query in queries.items():
        text, _, more = query.partition("\n")
        tables.append(f'[[subscription]]\nname = "{name}"\nquery = "{text}"\n{more}\n')
    return load_job(write_job(folder, HEAD + "".join(tables)))


A, B = "SELECT ra FROM photons WHERE en > 1.3", "SELECT dec FROM photons"


def test_new_ones_are_added_and_the_same_ones_stay(catalog: Catalog, tmp_path: Path) -> None:
    assert sync_job(catalog, job(tmp_path, a=A), STREAMS) == JobSync(added=["a"])
    assert sync_job(catalog, job(tmp_path, a=A), STREAMS) == JobSync(kept=["a"])
    assert sync_job(catalog, job(tmp_path, a=A, b=B), STREAMS) == JobSync(added=["b"], kept=["a"])
    entry = catalog.subscription("a")
    assert (entry.stream, entry.family, entry.kind, entry.query) == ("photons", "filters", "select", A)
    assert catalog.version("photons", ["filters"]) == 2


def test_another_text_for_the_same_query_is_no_change(catalog: Catalog, tmp_path: Path) -> None:
    sync_job(catalog, job(tmp_path, a=A), STREAMS)
    again = "select  ra from photons where en > 1.30"
    assert sync_job(catalog, job(tmp_path, a=again), STREAMS) == JobSync(kept=["a"])


def test_other_xml_of_the_same_results_is_another_query(catalog: Catalog, tmp_path: Path) -> None:
    wxquery = "for $p in stream('photons')/s/i where $p/en > 1.3 return <{0}>{{ $p/ra }}</{0}>".format
    assert sync_job(catalog, job(tmp_path, a=wxquery("x")), STREAMS) == JobSync(added=["a"])
    assert sync_job(catalog, job(tmp_path, a=wxquery("x").replace(" ", "  ")), STREAMS) == JobSync(kept=["a"])
    for other in (wxquery("y"), A):
        with pytest.raises(JobError, match="the name is taken by another query that runs"):
            sync_job(catalog, job(tmp_path, a=other), STREAMS)


def test_a_query_over_several_streams_has_parts(catalog: Catalog, tmp_path: Path) -> None:
    """They come, stay and go together; only the first has the query's name."""
    query = "<a>{ for $p in stream('photons')/s/i where $p/en > 1.3 return $p/ra }{ /photons/i }</a>"
    added = sync_job(catalog, job(tmp_path, a=query, b=B), STREAMS)
    assert added == JobSync(added=["a", "b"])
    assert [(e.number, e.name, e.label) for e in catalog.subscriptions()] == [
        (1, "a", "a"),
        (2, "a/2", "a/2"),
        (3, "b", "b"),
    ]
    assert [e.name for e in catalog.parts(catalog.subscription("a"))] == ["a/2"]
    assert catalog.parts(catalog.subscription("a/2")) == catalog.parts(catalog.subscription("b")) == []
    assert sync_job(catalog, job(tmp_path, a=query, b=B), STREAMS) == JobSync(kept=["a", "b"])
    catalog.cancel("a")
    assert [e.name for e in catalog.subscriptions()] == ["b"]
    assert catalog.subscribe_many([bind_subscription(Subscription("a", query), STREAMS)]) == [4]
    assert [(e.number, e.label) for e in catalog.parts(catalog.subscription("a"))] == [(5, "a/2#5")]


def test_another_query_under_a_name_that_runs(catalog: Catalog, tmp_path: Path) -> None:
    sync_job(catalog, job(tmp_path, a=A), STREAMS)
    with pytest.raises(JobError) as caught:
        sync_job(catalog, job(tmp_path, a=B, c=B), STREAMS)
    assert "job.toml: subscription a: the name is taken by another query that runs" in str(caught.value)
    assert f"it runs    {A}\n  now wanted {B}\n" in str(caught.value)
    assert [entry.name for entry in catalog.subscriptions()] == ["a"]  # and c was not added


def test_cancelled_ones_stay_cancelled(catalog: Catalog, tmp_path: Path) -> None:
    sync_job(catalog, job(tmp_path, a=A), STREAMS)
    catalog.cancel("a")
    assert sync_job(catalog, job(tmp_path, a=A), STREAMS) == JobSync(cancelled=["a"])
    assert sync_job(catalog, job(tmp_path, a="SELECT  ra FROM photons WHERE en > 1.3"), STREAMS) == JobSync(
        cancelled=["a"]
    )
    assert catalog.subscriptions() == []


def test_a_cancelled_name_with_another_query_is_new(catalog: Catalog, tmp_path: Path) -> None:
    sync_job(catalog, job(tmp_path, a=A), STREAMS)
    catalog.cancel("a")
    assert sync_job(catalog, job(tmp_path, a=B), STREAMS) == JobSync(added=["a"])


def test_what_was_subscribed_by_hand_stays(catalog: Catalog, tmp_path: Path) -> None:
    catalog.subscribe_many([bind_subscription(Subscription("hand", B), STREAMS)])
    sync_job(catalog, job(tmp_path, a=A), STREAMS)
    assert sync_job(catalog, job(tmp_path, b=B), STREAMS) == JobSync(added=["b"], absent=["a"])
    assert [entry.name for entry in catalog.subscriptions()] == ["hand", "a", "b"]


def test_times(catalog: Catalog, tmp_path: Path) -> None:
    timed = job(tmp_path, a=f"{A}\nactivate = 5\ncancel = 7.5")
    assert sync_job(catalog, timed, STREAMS).added == ["a"]
    assert sync_job(catalog, timed, STREAMS).kept == ["a"]
    activate, cancel = catalog.log("photons", ["filters"], 0, 9)
    assert isinstance(activate, Activate)
    assert (activate.time, cancel) == (5, Cancel(1, 7.5, "filters"))
    with pytest.raises(
        JobError, match=r"subscription a: it runs with cancel = 7\.5 and is now wanted without cancel"
    ):
        sync_job(catalog, job(tmp_path, a=f"{A}\nactivate = 5"), STREAMS)


def test_a_date_where_time_is_a_number(catalog: Catalog, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="subscription a: activate: 2026-01-01 00:00:00 is a date"):
        sync_job(catalog, job(tmp_path, a=f"{A}\nactivate = 2026-01-01"), STREAMS)
    with pytest.raises(JobError, match="is a date"):
        bind_subscription(Subscription("a", A, datetime(2026, 1, 1)), STREAMS)


def test_all_that_is_wrong_is_said_at_once(catalog: Catalog, tmp_path: Path) -> None:
    wrong = {f"w{n}": "SELECT enn FROM photons" for n in range(12)}
    with pytest.raises(JobError) as caught:
        sync_job(catalog, job(tmp_path, good=A, **wrong), STREAMS)
    message = str(caught.value)
    assert "job.toml: subscription w0: unknown column 'enn'" in message
    assert "\n  SELECT enn FROM photons\n         ^^^\n" in message
    assert message.endswith("and 2 more are wrong")
    assert catalog.subscriptions() == []


def test_syntax_is_checked_without_columns(tmp_path: Path) -> None:
    check_queries(job(tmp_path, a=A, b="SELECT anything FROM photons"))
    with pytest.raises(JobError) as caught:
        check_queries(job(tmp_path, a="SELEC ra FROM photons", b="SELECT ra FROM photon"))
    assert "job.toml: subscription a: " in str(caught.value)
    assert "job.toml: subscription b: unknown stream 'photon'; did you mean 'photons'?" in str(caught.value)


def test_where_its_results_are_sent(catalog: Catalog, tmp_path: Path) -> None:
    def sent_to(address: str) -> Job:
        return job(tmp_path, a=f'{A}\ndeliver = "{address}"')

    assert sync_job(catalog, sent_to("https://x.org/a"), STREAMS) == JobSync(added=["a"])
    assert catalog.receivers() == {1: "https://x.org/a"}
    assert sync_job(catalog, sent_to("https://x.org/a"), STREAMS) == JobSync(kept=["a"])
    with pytest.raises(JobError, match=r"with deliver = https://x.org/a and .* with deliver = kafka"):
        sync_job(catalog, sent_to("kafka:t@b:9092"), STREAMS)
    with pytest.raises(JobError, match=r"cannot be; it must be the address of a receiver"):
        sent_to("ftp://x/")


# --- registering one by one ---


@dataclass
class Books:
    """What has been delivered: the last batch of each branch, and the books."""

    batches: dict[str, int] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def latest(self, branch: str) -> int:
        return self.batches.get(branch, -1)

    def books(self, stream: str) -> dict[str, Any]:
        return self.facts


def test_names_are_checked_whoever_registers(catalog: Catalog) -> None:
    for name in ("", " a", "a\n", "x" * 201):
        with pytest.raises(JobError, match="a subscription cannot be called"):
            register(catalog, Books(), STREAMS, [Subscription("good", A), Subscription(name, A)])
    assert catalog.subscriptions() == []  # all or none


def test_an_owner_and_a_limit(catalog: Catalog) -> None:
    two = "<a>{ for $p in stream('photons')/s/i return $p/ra }{ /photons/i }</a>"
    assert register(catalog, Books(), STREAMS, [Subscription("a", two)], owner="ann", limit=2) == [1]
    assert [entry.owner for entry in catalog.subscriptions()] == ["ann", "ann"]  # its parts, too
    with pytest.raises(TooManyError, match="ann has 2 of 2 subscriptions"):
        register(catalog, Books(), STREAMS, [Subscription("b", A)], owner="ann", limit=2)
    with pytest.raises(NameTaken, match="the name 'a' is taken by an active subscription"):
        register(catalog, Books(), STREAMS, [Subscription("a", A)], owner="bob")


@pytest.mark.parametrize(("apart", "other"), [((), None), (("nearest",), 50.0)])
def test_the_first_of_a_branch_does_not_see_what_others_have_behind_them(
    catalog: Catalog, apart: tuple[str, ...], other: float | None
) -> None:
    """A family that is set apart reads the stream from its beginning; others go on with the stream."""
    streams = {"photons": replace(photons(), apart=apart)}
    running = Books({"photons": 6}, {"last": 50.0})
    nearest = "SELECT NEAREST 3 TO (1, 2) BY (ra, dec) FROM photons WINDOW RANGE 10"
    register(catalog, Books(), streams, [Subscription("before", A)])
    queries = {"same": A, "other": nearest}
    new = [Subscription(name, query, deliver="https://x.org/") for name, query in queries.items()]
    ahead = Subscription("ahead", nearest, activate=70)
    register(catalog, running, streams, [*new, ahead])
    times = {entry.name: entry.activate for entry in catalog.subscriptions()}
    assert times == {"before": None, "same": None, "other": other, "ahead": 70}
    receivers = Receivers(catalog.address)
    assert [delivery.cursor for _, delivery in receivers.open()] == ["7:0", "0:0" if apart else "7:0"]
    receivers.close()


def test_a_stream_that_has_ended_takes_no_query(catalog: Catalog) -> None:
    ended = Books(facts={"ended": True, "last": 50.0})
    with pytest.raises(JobError, match=r"stream photons has ended: .* would see nothing"):
        register(catalog, ended, STREAMS, [Subscription("a", A)])


@pytest.mark.parametrize("moment", [-(10**32), 10**400, float("inf"), float("nan"), 2**63])
def test_times_beyond_64_bits_are_refused(moment: float) -> None:
    for setting in ("activate", "cancel"):
        with pytest.raises(JobError, match=f"{setting}: .* is beyond every time"):
            bind_subscription(Subscription("a", A, **{setting: moment}), STREAMS)
        whole = declare(declaration(), (Column("det_time", ColumnType.INT), *COLUMNS[1:]))
        with pytest.raises(JobError, match=f"{setting}: .* is beyond every time"):
            bind_subscription(Subscription("a", A, **{setting: -1e32}), {"photons": whole})


def test_the_limits_of_the_job_hold_for_everybody(catalog: Catalog, tmp_path: Path) -> None:
    nearest = "SELECT NEAREST 11 TO (1, 2) BY (ra, dec) FROM photons WINDOW ROWS 5"
    strict = {"photons": replace(STREAMS["photons"], limits=QueryLimits(nearest_k=10))}
    with pytest.raises(LimitError, match=r"the number after NEAREST is 11 \(limit: 10\)"):
        register(catalog, Books(), strict, [Subscription("a", nearest)])
    with pytest.raises(JobError, match=r"subscription a: .*limit: 10"):
        sync_job(catalog, job(tmp_path, a=nearest), strict)


def test_limits_may_change_when_a_job_runs_again(catalog: Catalog) -> None:
    changed = replace(catalog.stream("photons"), limits=QueryLimits(nearest_k=10))
    catalog.register_stream(changed, catalog.declaration("photons"))
    assert catalog.stream("photons").limits.nearest_k == 10
