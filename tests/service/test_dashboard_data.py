"""What the dashboard reads: checked queries, progress, current results, positions, the network."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.results.layout import Layout
from anabranch.results.manifests import Manifest
from anabranch.service.current_results import LAST_ROWS, CurrentRows
from anabranch.service.job_service import Caller, JobService
from anabranch.service.positions import Positions
from anabranch.spark.measures import Measure
from tests.cli.sinks import deliver


def test_a_query_is_checked_and_not_registered(http: httpx.Client) -> None:
    found = http.post("/api/check", json={"query": "SELECT ra AS x, name FROM photons WHERE en > 1"})
    assert found.json() == {
        "stream": "photons",
        "family": "filters",
        "kind": "select",
        "columns": [{"name": "x", "type": "float"}, {"name": "name", "type": "string"}],
    }
    refused = http.post("/api/check", json={"query": "SELECT enn FROM photons"})
    assert (refused.status_code, refused.json()["error"]["place"]["offset"]) == (422, 7)
    assert len(http.get("/api/subscriptions").json()["subscriptions"]) == 2


def test_search(http: httpx.Client) -> None:
    def names(**parameters: str) -> list[str]:
        page = http.get("/api/subscriptions", params=parameters).json()
        return [one["name"] for one in page["subscriptions"]]

    assert names(search="VEL") == ["vela"]
    assert names(search="det_time") == ["all"]
    assert names(kind="select") == ["vela", "all"]
    assert names(kind="moving") == []
    assert names(search="%") == names(search="v_la") == []
    assert names(search="_") == ["all"]  # det_time
    page = http.get("/api/subscriptions", params={"search": "photons", "limit": 1}).json()
    assert [one["name"] for one in page["subscriptions"]] == ["vela"]
    rest = http.get(
        "/api/subscriptions", params={"search": "photons", "limit": 1, "after": page["next"]}
    ).json()
    assert ([one["name"] for one in rest["subscriptions"]], rest["next"]) == (["all"], None)


def test_progress_adds_batches_as_they_come(http: httpx.Client, layout: Layout) -> None:
    first = http.get("/api/progress").json()
    (photons,) = first["branches"]
    assert (photons["stream"], photons["branch"], photons["batch"]) == ("photons", "photons", 1)
    assert [(point["batch"], point["items"]) for point in photons["points"]] == [(0, 2), (1, 3)]
    assert photons["books"]["late"] == 1
    assert first["subscriptions"] == {"select": 2}
    deliver(layout, 2, [3], [["all"]], dead=[("late", "x")])
    (photons,) = http.get("/api/progress").json()["branches"]
    assert [(point["batch"], point["items"]) for point in photons["points"]] == [(0, 2), (1, 3), (2, 4)]
    assert 0 <= photons["age_seconds"] < 60


def test_progress_of_a_family_that_is_set_apart(http: httpx.Client, service: JobService) -> None:
    service.deliveries.commit("photons.clusters", Manifest(0, books={"processed": 1}))
    service.measured = lambda: [Measure("photons.clusters", 0, 2.5, 1024, None)]
    found = http.get("/api/progress").json()["branches"]
    assert [(one["stream"], one["branch"], one["batch"], one["batch_seconds"]) for one in found] == [
        ("photons", "photons", 1, None),
        ("photons", "photons.clusters", 0, 2.5),
    ]
    assert [point["seconds"] for point in found[1]["points"]] == [2.5]


def test_current_results_of_a_selection_are_its_last_rows(http: httpx.Client, layout: Layout) -> None:
    answer = http.get("/api/answers/all").json()
    assert (answer["kind"], answer["stream"], answer["more"]) == ("select", "photons", False)
    assert [row["ra"] for row in answer["rows"]] == [120.5, None, 122.5]
    deliver(layout, 2, [3], [["all"]], dead=[("late", "x")])
    assert [row["ra"] for row in http.get("/api/answers/all").json()["rows"]] == [120.5, None, 122.5, 123.5]
    assert http.get("/api/answers/nobody").status_code == 404


@given(st.lists(st.sampled_from("abc"), max_size=30))
def test_objects_that_are_in(drawn: list[str]) -> None:
    """An object enters and leaves in turn. The oracle: it is in if it had an odd number of rows."""
    current = CurrentRows({"kind": "moving", "value": None})
    for at, name in enumerate(drawn):
        current.add([{"op": "-" if drawn[:at].count(name) % 2 else "+", "object": name, "at": at}])
    assert sorted(row["object"] for row in current.rows) == [n for n in "abc" if drawn.count(n) % 2]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=20), st.data())
def test_items_that_are_in_where_ids_repeat(items: list[tuple[int, int]], data: st.DataObject) -> None:
    """The oracle: a list from which what leaves is taken away."""
    current, inside = CurrentRows({"kind": "nearest"}), []
    for name, distance in items:
        row: dict[str, Any] = {"id": name, "distance": float(distance)}
        inside.append(row)
        current.add([row | {"op": "+"}])
        if data.draw(st.booleans()):
            gone = inside.pop(data.draw(st.integers(0, len(inside) - 1)))
            current.add([gone | {"op": "-"}])

    def named(row: dict[str, Any]) -> tuple[int, float]:
        return row["id"], row["distance"]

    assert sorted(map(named, current.rows)) == sorted(map(named, inside))


@given(st.lists(st.integers(0, 5), max_size=30))
def test_the_last_window_of_clusters(ends: list[int]) -> None:
    rows = [{"window_end": end, "id": index} for index, end in enumerate(sorted(ends))]
    current = CurrentRows({"kind": "clusters", "emit": "members"})
    current.add(rows)
    assert current.rows == [row for row in rows if row["window_end"] == max(ends)]


def test_rows_without_an_end_are_forgotten() -> None:
    current = CurrentRows({"kind": "select"})
    current.add({"n": number} for number in range(LAST_ROWS + 5))
    assert [row["n"] for row in current.rows] == list(range(5, LAST_ROWS + 5))


def test_positions_need_a_selection_of_all_items(
    http: httpx.Client, layout: Layout, service: JobService
) -> None:
    """photons declare `ra, dec`: `all` has no dec, so nothing is known until a subscription selects both."""
    nothing: dict[str, Any] = {"subscription": None, "names": [], "x": [], "y": []}
    assert http.get("/api/positions/photons").json() == nothing
    assert http.get("/api/positions/nothing").status_code == 404
    http.post(
        "/api/subscriptions", json={"name": "some", "query": "SELECT ra, dec FROM photons WHERE en > 1"}
    )
    assert http.get("/api/positions/photons").json() == nothing
    http.post("/api/subscriptions", json={"name": "places", "query": "SELECT dec AS d, ra FROM photons"})
    assert http.get("/api/positions/photons").json() == nothing | {"subscription": "places"}
    deliver(layout, 2, [3, 4, 5], [["places"], ["all"], ["all", "places"]], dead=[("late", "x")])
    found = http.get("/api/positions/photons").json()
    assert found == {"subscription": "places", "names": [5, 3], "x": [125.5, 123.5], "y": [-5.0, -3.0]}
    assert http.get("/api/positions/photons", params={"limit": 1}).json()["names"] == [5]
    known = Positions(service).of(Caller(), service.stream("photons"), [3, 4])
    assert known == [(123.5, -3.0), None]
    http.delete("/api/subscriptions/places")
    assert http.get("/api/positions/photons").json() == nothing


def test_the_network_follows_subscriptions(http: httpx.Client) -> None:
    def site() -> dict[str, Any]:
        (found,) = http.get("/api/network").json()["sites"]
        return found

    before = site()
    assert (before["name"], before["streams"], before["readers"]) == ("here", ["photons"], 2)
    assert before["load"] > 0
    http.post("/api/subscriptions", json={"name": "x", "query": "SELECT ra FROM photons WHERE en > 2"})
    assert site()["readers"] == 3
    http.delete("/api/subscriptions/x")
    http.post("/api/subscriptions", json={"name": "x", "query": "SELECT ra FROM photons WHERE en > 3"})
    assert site()["readers"] == 3
    http.delete("/api/subscriptions/x")
    assert site()["readers"] == 2


def test_the_plan_is_computed_again_when_subscriptions_change(http: httpx.Client) -> None:
    before = http.get("/api/plan").json()
    assert http.get("/api/plan").json() == before
    http.post("/api/subscriptions", json={"name": "x", "query": "SELECT ra FROM photons WHERE en > 2"})

    def names(plan: dict[str, Any]) -> set[str]:
        return {one["name"] for group in plan["groups"] for one in group["subscriptions"]}

    assert names(http.get("/api/plan").json()) == names(before) | {"x"}


def test_pages_run_no_other_script(http: httpx.Client) -> None:
    page = http.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert http.get("/dashboard/style.css").headers["content-type"].startswith("text/css")
    assert http.get("/dashboard/nothing.js").json()["error"]["code"] == "unknown"


def test_pages_need_no_token_and_what_they_read_does(
    http: httpx.Client, tokens: dict[str, dict[str, str]]
) -> None:
    assert http.get("/").status_code == 200
    assert http.get("/api/caller").status_code == 401
    assert http.get("/api/caller", headers=tokens["eve"]).json() == {"owner": "eve", "role": "viewer"}
    assert http.get("/api/answers/all", headers=tokens["ann"]).status_code == 404
    assert http.get("/api/network", headers=tokens["ann"]).status_code == 403
    assert http.get("/api/progress", headers=tokens["ann"]).json()["subscriptions"] == {}


@pytest.mark.parametrize("owner", ["ann", "root"])
def test_positions_are_those_of_selections_that_one_may_see(
    http: httpx.Client, tokens: dict[str, dict[str, str]], owner: str
) -> None:
    new = {"name": "mine", "query": "SELECT ra, dec FROM photons"}
    assert http.post("/api/subscriptions", json=new, headers=tokens[owner]).status_code == 201
    seen = {
        who: http.get("/api/positions/photons", headers=tokens[who]).json()["subscription"]
        for who in ("ann", "bob", "eve")
    }
    assert seen == {"ann": "mine" if owner == "ann" else None, "bob": None, "eve": "mine"}
