"""A query of each kind is registered through the page, and its answer appears there."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from tests.e2e.page import COMING, NOW, Page, delivered, is_shown

pytestmark = [pytest.mark.browser, pytest.mark.slow]

Rows = list[dict[str, str]]


def _hot(rows: Rows) -> bool:
    return all(float(row["en"]) > 2 for row in rows)


def _windows(rows: Rows) -> bool:
    return all(int(row["n"]) == 200 == int(row["window_end"]) - int(row["window_start"]) for row in rows)


def _five_nearest(rows: Rows) -> bool:
    far = [((float(r["ra"]) - 128.8) ** 2 + (float(r["dec"]) + 45.2) ** 2) ** 0.5 for r in rows]
    return len(rows) == 5 and far == pytest.approx([float(row["distance"]) for row in rows], abs=2e-4)


def _convoys(rows: Rows) -> bool:
    return len(rows) > 1 and all(int(row["members"]) > 8 for row in rows)


def _close(rows: Rows) -> bool:
    return len(rows) > 0 and all(float(row["distance"]) <= 25 and row["object"] != "390001" for row in rows)


def _three(rows: Rows) -> bool:
    return len(rows) == 3 and {row["complete"] for row in rows} == {"true"}


KINDS: dict[str, tuple[str, str, str, Callable[[Rows], bool]]] = {
    "hot": ("select", "SELECT det_time, en FROM photons WHERE en > 2", COMING, _hot),
    "mean": (
        "aggregate",
        "SELECT avg(en) AS mean, count(*) AS n FROM photons WINDOW ROWS 200",
        COMING,
        _windows,
    ),
    "core": (
        "nearest",
        "SELECT NEAREST 5 TO (128.8, -45.2) BY (ra, dec) FROM photons WINDOW ROWS 3000",
        NOW,
        _five_nearest,
    ),
    "convoys": (
        "clusters",
        "SELECT CLUSTERS WITHIN 0.01 MIN 8 BY (latitude, longitude) FROM targets WINDOW ROWS 2000 STEP 500",
        NOW,
        _convoys,
    ),
    "close": ("moving", "SELECT OBJECTS WITHIN 25 OF OBJECT '390001' FROM flights", NOW, _close),
    "three": ("moving", "SELECT NEAREST 3 OBJECTS TO OBJECT '390010' FROM flights", NOW, _three),
}


@pytest.mark.parametrize("name", KINDS)
def test_an_answer_appears(page: Page, http: httpx.Client, name: str) -> None:
    kind, query, where, holds = KINDS[name]
    page.go("subscriptions")
    page.write("#query", query)
    page.wait(lambda: page.text("#checked").startswith(f"✓ {kind} over "), "the check")
    page.write("#name", name)
    page.one("#register").click()
    page.wait(lambda: f"{name} is registered" in page.text("#registered"), "the registration")
    page.wait(lambda: name in page.text("#watch-title"), "the watch")

    def answered() -> Rows:
        rows = page.rows(where)
        return rows if rows and holds(rows) else []

    shown = page.wait(answered, f"an answer of {kind}")
    rows = delivered(http, name)
    if kind == "clusters":
        assert {row["cluster"] for row in rows} >= {int(row["cluster"]) for row in shown}
    else:
        assert all(any(is_shown(row, one) for one in rows) for row in shown)
