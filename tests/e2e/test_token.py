"""The dashboard of a service that wants to know who asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from anabranch.catalog.tokens import Role, Tokens
from tests.e2e.engine import LocalJob
from tests.e2e.page import COMING, Page
from tests.e2e.streams import generated

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def job(tmp_path: Path) -> LocalJob:
    """Of its own: from the first token on a service answers nobody without one."""
    return LocalJob(tmp_path / "out", generated(photons_a_batch=500)[:1], pause_s=0.2)


@pytest.fixture
def address(job: LocalJob, driver: Chrome) -> Iterator[str]:
    with job.served() as address:
        yield address


@pytest.fixture
def token(job: LocalJob) -> str:
    tokens = Tokens(job.layout.catalog)
    made = tokens.create("ann", Role.USER)
    tokens.close()
    return made


def test_a_token_is_asked_for_once(page: Page, token: str) -> None:
    page.driver.refresh()
    page.wait(lambda: page.one("#token-dialog").is_displayed(), "the question")
    page.write("#token", "ana_wrong")
    page.one("#token-form button").click()
    page.wait(lambda: "needs a valid token" in page.text("#token-error"), "the refusal")
    page.write("#token", token)
    page.one("#token-form button").click()
    page.wait(lambda: not page.one("#token-dialog").is_displayed(), "the page")
    page.wait(lambda: "role viewer" in page.text("#saving"), "what a user may not see")
    page.go("subscriptions")
    page.write("#query", "SELECT ra, en FROM photons")
    page.write("#name", "of ann")
    page.one("#register").click()
    page.wait(lambda: page.rows(COMING), "results, live, with a header")
    assert [row["Name"] for row in page.rows("#list")] == ["of ann"]
    assert token not in page.driver.current_url
    asked = page.script("return performance.getEntriesByType('resource').map((one) => one.name)")
    assert asked
    assert not any(token in one for one in asked)
