"""Groups of queries that share: equal conditions, containment, and what other kinds have in common."""

from __future__ import annotations

from anabranch.catalog.registration import bind_subscription
from anabranch.model.subscription import Subscription
from anabranch.planning.sharing_groups import group_summary, groups_of
from tests.catalog.streams import photons

STREAMS = {"photons": photons()}


def grouped(*queries: str) -> list[tuple[int, str, list[str]]]:
    bound_queries = [
        bind_subscription(Subscription(f"q{number}", query), STREAMS) for number, query in enumerate(queries)
    ]
    return [(group.depth, group.shared, group.names) for group in groups_of(bound_queries, STREAMS)]


def test_equal_conditions_are_one_whatever_their_text() -> None:
    query = "SELECT ra FROM photons WHERE {}"
    same = [query.format("en > 1 AND ra < 5"), query.format("5 > ra AND en > 1.0 AND en > 0")]
    ((_, shared, names),) = grouped(*same)
    assert names == ["q0", "q1"]
    assert "ra < 5.0" in shared
    # NOT is true where ra is missing, so this one is wider
    assert [names for _, _, names in grouped(same[0], query.format("NOT ra >= 5 AND en > 1"))] == [
        ["q1"],
        ["q0"],
    ]


def test_a_condition_hangs_below_the_tightest_that_contains_it() -> None:
    queries = [
        f"SELECT ra FROM photons WHERE {condition}" for condition in ("en > 3", "en > 1", "en > 2", "ra < 7")
    ]
    found = [
        (depth, names)
        for depth, _, names in grouped(*queries, "SELECT ra FROM photons WHERE en > 3 AND ra < 7")
    ]
    assert found[:4] == [(0, ["q1"]), (1, ["q2"]), (2, ["q0"]), (3, ["q4"])]
    assert found[4:] == [(0, ["q3"])]


def test_everything_contains_all() -> None:
    assert grouped("SELECT ra FROM photons", "SELECT ra FROM photons WHERE en > 3")[0] == (
        0,
        "every item",
        ["q0"],
    )


def test_other_kinds_are_grouped_by_coordinates_and_condition() -> None:
    query = "SELECT NEAREST 3 TO (1, 2) BY (ra, dec) FROM photons WINDOW RANGE {}"
    queries = [bind_subscription(Subscription(f"n{size}", query.format(size)), STREAMS) for size in (10, 20)]
    (group,) = groups_of(queries, STREAMS)
    assert (group.family, group.shared, group.names) == (
        "nearest",
        "by (ra, dec), every item",
        ["n10", "n20"],
    )
    assert group_summary([group]) == ["photons, nearest: 2 subscriptions in 1 group"]
