"""The dashboard as a person uses it: by what is written on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import httpx
import pytest

from tests.e2e.browser import looks

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

PATIENCE_S = 60.0  # kernels that nobody used yet are compiled first
Found = TypeVar("Found")

#: The tables below a subscription that is watched: its answer as it stands, and rows as they come.
NOW, COMING = "#watched .results:nth-of-type(2) table", "#watched .results:nth-of-type(3) table"


class Page:
    def __init__(self, driver: Chrome, address: str) -> None:
        self.driver, self.address = driver, address

    def begin(self) -> None:
        self.driver.get("about:blank")
        looks(self.driver, 1280, 900)
        self.driver.get(self.address)
        self.driver.execute_script("sessionStorage.clear()")
        self.driver.get_log("browser")

    def go(self, name: str) -> None:
        """To one of the pages, by its link."""
        self.one(f'nav a[href="#{name}"]').click()
        self.wait(lambda: self.one(f"#{name}").is_displayed(), f"page {name}")

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements("css selector", selector)

    def text(self, selector: str) -> str:
        """All of it at once, so that it cannot change while it is read."""
        return str(self.script("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def rows(self, selector: str) -> list[dict[str, str]]:
        """A table as it stands, by its heads."""
        return list(
            self.script(
                """const table = document.querySelector(arguments[0]);
                if (!table) return [];
                const heads = [...table.querySelectorAll("th")].map((one) => one.textContent);
                return [...table.querySelectorAll("tbody tr")].map((row) => Object.fromEntries(
                    [...row.children].map((cell, place) => [heads[place], cell.textContent])));""",
                selector,
            )
        )

    def write(self, selector: str, text: str) -> None:
        """Replaces the text of a field, as a person types: emptying it first would be an event of its own."""
        from selenium.webdriver import Keys

        field = self.one(selector)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(text)

    def script(self, text: str, *arguments: object) -> Any:
        return self.driver.execute_script(text, *arguments)

    def wait(self, look: Callable[[], Found], what: str) -> Found:
        until = time.monotonic() + PATIENCE_S
        while not (found := look()):
            assert time.monotonic() < until, f"waited in vain for {what}; the page says:\n{self.text('main')}"
            time.sleep(0.05)
        return found

    def check_log(self) -> None:
        """Refusals are answers; anything else that the browser complains of is a fault."""
        log = [one["message"] for one in self.driver.get_log("browser") if one["level"] == "SEVERE"]
        assert [line for line in log if "/api/" not in line or "status of 5" in line] == []


def delivered(http: httpx.Client, name: str) -> list[dict[str, Any]]:
    """All that a subscription was answered so far."""
    rows, page = [], {"next": "0:0", "more": True}
    while page["more"]:
        page = http.get(f"/api/results/{name}", params={"after": page["next"], "limit": 10_000}).json()
        rows += page["rows"]
    return rows


def is_shown(shown: dict[str, str], row: dict[str, Any]) -> bool:
    """Whether a row of a table is this result: numbers are written with seven digits, and an answer that
    stands says no `op`.
    """
    assert row.keys() - shown.keys() <= {"op"}
    return row.get("op") != "-" and all(_equal(text, row[key]) for key, text in shown.items())


def _equal(text: str, value: Any) -> bool:
    if isinstance(value, bool) or value is None:
        return text == ("" if value is None else str(value).lower())
    if isinstance(value, int | float):
        return float(text) == pytest.approx(value, rel=1e-6)
    return text == str(value)
