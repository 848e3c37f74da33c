"""A plan of thousands of subscriptions as a few boxes."""

from __future__ import annotations

import threading
import time
from typing import Any

import httpx
import pytest

from anabranch.service.dashboard_models import PlanBox
from anabranch.service.errors import Refused
from anabranch.service.plan_boxes import FEW, LEVELS, MOST_BOXES, PAGE, PlanBoxes, PlanTree


def plan(parents: list[int | None], asked: dict[int, int] | None = None) -> dict[str, Any]:
    """A condition `c0`, `c1` ... per parent that is given, each asked for by one subscription unless said."""
    groups = [
        {
            "stream": "s",
            "family": "filters",
            "shared": f"c{index}",
            "parent": parent,
            "rows": float(index % 7),
            "subscriptions": [
                {"name": f"q{index}-{n}", "kind": "select"} for n in range((asked or {}).get(index, 1))
            ],
        }
        for index, parent in enumerate(parents)
    ]
    return {"summary": [], "groups": groups}


def titles(boxes: list[PlanBox]) -> list[str]:
    return [f"{one.folded} folded" if one.folded else one.title for one in boxes]


def test_few_are_drawn_as_they_are() -> None:
    boxes = PlanTree(plan([None, 0, 0, None])).boxes("s", {})
    assert titles(boxes) == ["s", "c0", "c3", "c2", "c1"]
    assert [one.parent for one in boxes[3:]] == [boxes[1].key] * 2


def test_many_siblings_become_one_box_that_opens_by_pages() -> None:
    tree = PlanTree(plan([None] * 280))
    root, folded = tree.boxes("s", {})
    assert (root.subscriptions, folded.folded, folded.subscriptions) == (280, 280, 280)
    assert (folded.low, folded.high) == (0.0, 6.0)
    opened = tree.boxes("s", {folded.key: folded.opens})
    assert len(opened) == 1 + PAGE + 1
    assert (opened[-1].folded, opened[-1].opens) == (280 - PAGE, 2 * PAGE)
    everything = tree.boxes("s", {folded.key: 1000})
    assert len(everything) == 281
    assert not any(one.folded for one in everything)


def test_what_many_depend_on_stays_in_sight() -> None:
    parents: list[int | None] = [None] * 100 + [50] * 30
    boxes = PlanTree(plan(parents, {7: 12})).boxes("s", {})
    assert titles(boxes) == ["s", "c50", "c7", "98 folded", "30 folded"]


def test_the_way_to_a_subscription_is_drawn_where_it_would_be_folded() -> None:
    tree = PlanTree(plan([None] * 50 + [20] * 50 + [77] * 3))
    way = tree.way("q101-0")
    assert way == [20, 77, 101]
    boxes = tree.boxes("s", {}, way)
    assert [one.title for one in boxes if one.on_way] == ["c20", "c77", "c101"]
    assert titles(boxes) == ["s", "c20", "49 folded", "c77", "49 folded", "c101", "2 folded"]
    with pytest.raises(Refused, match="did you mean 'q101-0'"):
        tree.way("q101-")


def test_a_long_chain_is_cut_and_opens_further() -> None:
    tree = PlanTree(plan([None, *range(299)]))
    boxes = tree.boxes("s", {})
    assert titles(boxes) == ["s", *(f"c{n}" for n in range(LEVELS)), "1 folded"]
    assert boxes[-1].below == 300 - LEVELS - 1
    further = tree.boxes("s", {boxes[-1].key: boxes[-1].opens})
    assert len(further) == len(boxes) + LEVELS


def test_thousands_are_few_boxes_and_none_is_lost() -> None:
    parents: list[int | None] = [None if n < 10 else (n * 7919) % max(10, n // 3) for n in range(5_000)]
    tree = PlanTree(plan(parents))
    boxes = tree.boxes("s", {})
    assert len(boxes) <= 3 * (MOST_BOXES + FEW)
    assert sum(one.subscriptions for one in boxes[1:]) == 5_000
    assert sum((one.folded + one.below) or 1 for one in boxes[1:]) == 5_000
    keys = {one.key for one in boxes}
    assert len(keys) == len(boxes)
    assert all(one.parent in keys for one in boxes[1:])


def test_a_tree_is_built_once_per_plan() -> None:
    plans = [plan([None]), plan([None, 0])]
    boxes = PlanBoxes(lambda: plans[0])
    assert boxes.tree() is boxes.tree()
    before = boxes.page("", {}, "").boxes[1].key
    plans.pop(0)
    assert boxes.page("", {}, "").boxes[1].key == before  # what is open stays open
    assert boxes.tree().savings.model_dump() == {
        "subscriptions": 2,
        "conditions": 2,
        "tested_on_every_item": 1,
    }


def test_nobody_waits_for_a_plan_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.service.plan_boxes.PATIENCE_S", 0.01)
    plans, ready = [plan([None])], threading.Event()

    def slow() -> dict[str, Any]:
        if len(plans) > 1:
            ready.wait(20)
        return plans[-1]

    boxes = PlanBoxes(slow)
    first = boxes.tree()
    plans.append(plan([None, 0]))
    assert boxes.tree() is boxes.tree() is first
    ready.set()
    until = time.monotonic() + 20
    while boxes.tree() is first:
        assert time.monotonic() < until
    assert len(boxes.tree().groups) == 2


def test_nothing_is_asked_for() -> None:
    page = PlanBoxes(lambda: plan([])).page("", {}, "")
    assert (page.streams, page.stream, page.boxes) == ([], "", [])


def test_over_http(http: httpx.Client) -> None:
    page = http.get("/api/plan/boxes", params={"way": "vela"}).json()
    assert page["stream"] == "photons"
    assert [one["key"] for one in page["boxes"] if one["on_way"]] == page["way"]
    assert http.get("/api/plan/boxes", params={"way": "nobody"}).status_code == 404
    assert http.get("/api/plan/boxes", params={"open": "x:y"}).status_code == 422
    assert http.get("/api/plan/boxes", params={"open": ".filters:20"}).status_code == 200
    assert http.get("/api/plan/savings").json()["subscriptions"] == 2


def test_no_cost_is_shown_that_was_not_measured(http: httpx.Client) -> None:
    """The cost model's CPU decides what is shared; measured, it is something else."""
    for path in ("/api/plan/savings", "/api/plan/boxes", "/api/progress"):
        assert "cpu" not in http.get(path).text.lower(), path
    assert http.get("/api/plan/savings").json() == {
        "subscriptions": 2,
        "conditions": 2,
        "tested_on_every_item": 1,
    }
