"""The charts of the overview: a chosen span, pauses that are left open, labels that are not cut."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from anabranch.results.manifests import Manifest
from tests.e2e.browser import looks
from tests.e2e.engine import LocalJob
from tests.e2e.page import Page
from tests.e2e.sizes import subscribe
from tests.e2e.streams import generated

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PER_BATCH = 400_000
#: When batches came, in seconds before now: for half an hour, an hour ago; then again for two minutes.
TIMES = [*range(5400, 3600, -4), *range(120, 0, -2)]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, driver: Chrome) -> Iterator[str]:
    """Of a job that paused, with manifests of our own; it runs no batch while the test lasts."""
    job = LocalJob(tmp_path_factory.mktemp("paused") / "out", generated()[:1], pause_s=3600)
    subscribe(job, 1)
    now = time.time()
    for batch, before in enumerate(TIMES):
        books = {"rows_in": (batch + 1) * PER_BATCH, "processed": (batch + 1) * PER_BATCH}
        job.deliveries.commit("photons", Manifest(batch, books=books))
        file = job.layout.manifests("photons") / f"{batch:012d}.json"
        os.utime(file, (now - before, now - before))
    with job.served() as address:
        yield address


def pieces(page: Page) -> list[list[float]]:
    """The x of the points of a line, one list per piece that is drawn without a break."""
    path = page.script("return document.querySelector('#throughput path.line')?.getAttribute('d') ?? ''")
    return [
        [float(x) for x in re.findall(r"[ML]([\d.]+) ", f"M{piece}")] for piece in path.split("M") if piece
    ]


def test_five_minutes_are_shown_at_first(page: Page) -> None:
    (piece,) = page.wait(lambda: pieces(page), "the line")
    width = page.one("#throughput svg").rect["width"]
    assert "5 min ago" in page.text("#throughput .chart")
    assert piece[0] > width / 2, "the two minutes since the pause are less than half of the five"


def test_a_pause_is_left_open(page: Page) -> None:
    page.one('#span option[value="7200"]').click()
    page.wait(lambda: "2 h ago" in page.text("#throughput .chart"), "two hours")
    before, after = page.wait(lambda: len(pieces(page)) == 2 and pieces(page), "two pieces")
    width = page.one("#throughput svg").rect["width"]
    assert after[0] - before[-1] > 0.4 * width
    for piece in (before, after):
        assert max(b - a for a, b in pairwise(piece)) < 0.05 * width
    legend = page.text("#throughput .legend")
    assert 100_000 <= int(re.sub(r"\D", "", legend)) <= 400_000, "the rate is not that of the pause"


@pytest.mark.parametrize("phone", [False, True])
def test_labels_are_not_cut(page: Page, phone: bool) -> None:
    if phone:
        looks(page.driver, 390, 844, phone=True)
    page.wait(lambda: "K" in page.text("#throughput .chart"), "an axis of hundreds of thousands")
    cut = page.script(
        """return [...document.querySelectorAll(".chart svg")].flatMap((chart) => {
            const frame = chart.getBoundingClientRect();
            const texts = [...chart.querySelectorAll("text")].map((one) => one.getBoundingClientRect());
            return texts.filter((one, n) => one.left < frame.left || one.right > frame.right
                || one.top < frame.top || one.bottom > frame.bottom
                || texts.some((two, m) => m > n && one.left < two.right && two.left < one.right
                    && one.top < two.bottom && two.top < one.bottom)).map((one) => JSON.stringify(one));
        })"""
    )
    assert cut == []
