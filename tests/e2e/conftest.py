from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.e2e.browser import chromium, missing
from tests.e2e.engine import LocalJob
from tests.e2e.page import Page
from tests.e2e.streams import generated

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


@pytest.fixture(scope="session")
def driver() -> Iterator[Chrome]:
    """One browser for all tests."""
    why = missing()
    if why:
        pytest.skip(why)
    with chromium() as driver:
        yield driver


@pytest.fixture(scope="session")
def job(tmp_path_factory: pytest.TempPathFactory) -> LocalJob:
    root: Path = tmp_path_factory.mktemp("job") / "out"
    return LocalJob(root, generated(photons_a_batch=500), pause_s=0.2)


@pytest.fixture(scope="session")
def address(job: LocalJob, driver: Chrome) -> Iterator[str]:
    """A job that runs, and its service; only where there is a browser to look at it."""
    with job.served() as address:
        yield address


@pytest.fixture
def page(driver: Chrome, address: str) -> Iterator[Page]:
    """The page of a tab that has just been opened; a script that fails fails the test."""
    page = Page(driver, address)
    page.begin()
    yield page
    page.check_log()
    driver.get("about:blank")  # nobody listens any more


@pytest.fixture
def http(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, trust_env=False, timeout=60) as client:
        yield client
