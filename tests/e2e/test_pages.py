"""What the pages show and do, beside answers."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.e2e.browser import looks
from tests.e2e.page import COMING, Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ASKED = {
    "all flights": "SELECT icao24, longitude, latitude FROM flights",
    "around": "SELECT OBJECTS WITHIN 30 OF OBJECT '390001' FROM flights",
    "all targets": "SELECT latitude, longitude FROM targets",
    "dense": "SELECT CLUSTERS WITHIN 0.01 MIN 8 BY (latitude, longitude) FROM targets WINDOW ROWS 1000",
    "vela": "SELECT NEAREST 4 TO (128.8, -45.2) BY (ra, dec) FROM photons WINDOW ROWS 1000",
    "warm": "SELECT ra FROM photons WHERE en > 1",
    "warmer": "SELECT ra FROM photons WHERE en > 3",
}


@pytest.fixture(autouse=True)
def asked(http: httpx.Client) -> None:
    there = {one["name"] for one in http.get("/api/subscriptions").json()["subscriptions"]}
    for name in ASKED.keys() - there:
        http.post("/api/subscriptions", json={"name": name, "query": ASKED[name]}).raise_for_status()


def test_overview_follows_the_streams(page: Page) -> None:
    def items() -> int:
        found = [row for row in page.rows("#streams") if row["Stream"] == "flights"]
        return int(found[0]["Items"].replace(",", "")) if found else 0

    before = page.wait(items, "the books")
    page.wait(lambda: items() > before, "more items")
    tiles = page.text("#tiles")
    for what in (
        "Items per second",
        "Result rows per second",
        "Time per batch",
        "Lag",
        "Subscriptions",
        "Conditions",
    ):
        assert what in tiles
    page.wait(lambda: "photons" in page.text("#throughput .legend"), "the chart")
    page.wait(lambda: "tested on every item" in page.text("#saving"), "what is shared")
    assert "moving" in page.text("#kinds")


def test_a_query_is_checked_while_it_is_written(page: Page) -> None:
    page.go("subscriptions")
    page.write("#query", "SELECT enn FROM photons")
    page.wait(lambda: "did you mean 'en'?" in page.text("#checked"), "the refusal")
    assert page.text("#checked pre").splitlines()[-1].strip() == "^^^"
    assert page.one("#query").get_attribute("aria-invalid") == "true"
    page.write("#query", "SELECT en FROM photons")
    page.wait(lambda: "✓ select over photons" in page.text("#checked"), "the check")


def test_every_example_is_a_query(page: Page) -> None:
    page.go("subscriptions")
    options = page.wait(lambda: page.all("#example option")[1:], "the examples")
    assert len(options) >= 12
    for option in options:
        kind = option.text.split(":")[0]
        page.script(
            "arguments[0].selected = true; arguments[0].parentNode.dispatchEvent(new Event('change'))", option
        )
        page.wait(lambda kind=kind: page.text("#checked").startswith(f"✓ {kind}"), option.text)  # type: ignore[misc]


def test_search_and_cancel(page: Page, http: httpx.Client) -> None:
    http.post("/api/subscriptions", json={"name": "gone", "query": "SELECT dec FROM photons"})
    page.go("subscriptions")
    page.write("#search", "gon")
    page.wait(lambda: [row["Name"] for row in page.rows("#list")] == ["gone"], "the search")
    page.one('button[aria-label="Cancel gone"]').click()
    page.driver.switch_to.alert.accept()
    page.wait(lambda: page.rows("#list") == [], "the end")
    assert http.get("/api/subscriptions/gone").json()["state"] == "cancelled"
    page.one("#every").click()
    page.wait(lambda: "cancelled" in page.text("#list"), "what was cancelled")


def test_what_people_write_is_text(page: Page, http: httpx.Client) -> None:
    """Neither a name nor a query becomes a part of the page."""
    name = "<img src=x onerror=alert(1)>"
    asked = {"name": name, "query": "SELECT ra FROM photons WHERE en > 7"}
    assert http.post("/api/subscriptions", json=asked).status_code == 201
    page.go("subscriptions")
    page.write("#search", "onerror")
    page.wait(lambda: [row["Name"] for row in page.rows("#list")] == [name], "the name")
    page.one("#list button").click()
    page.wait(lambda: name in page.text("#watch-title"), "the watch")
    page.go("plan")
    page.wait(lambda: "onerror" in page.text("#dag"), "the plan")
    assert page.all("main img, #list img, #dag img") == []


def test_without_a_mouse(page: Page, http: httpx.Client) -> None:
    """From the top of the page to a subscription, by keys alone."""
    from selenium.webdriver import ActionChains, Keys

    def press(*keys: str) -> None:
        ActionChains(page.driver).send_keys(*keys).perform()

    def tab_to(look: str) -> None:
        for _ in range(40):
            press(Keys.TAB)
            if page.script("return document.activeElement.matches(arguments[0])", look):
                outline = page.script("return getComputedStyle(document.activeElement).outlineStyle")
                assert outline != "none", f"{look} has no visible focus"
                return
        raise AssertionError(f"no way to {look}")

    tab_to('nav a[href="#subscriptions"]')
    press(Keys.ENTER)
    page.wait(lambda: page.one("#subscriptions").is_displayed(), "the page")
    tab_to("#query")
    press("SELECT phc FROM photons")
    tab_to("#name")
    press("by keys")
    tab_to("#register")
    press(Keys.ENTER)
    page.wait(lambda: "by keys" in page.text("#watch-title"), "the watch")
    page.wait(lambda: page.rows(COMING), "results")


def test_the_plan_and_the_network(page: Page) -> None:
    page.go("plan")
    page.wait(lambda: "and en > 3" in page.text("#dag"), "the condition, as what it adds")
    page.one('#dag .node[aria-label*="warmer"]').click()
    assert "Needed by 1 subscription: warmer" in page.text("#plan-chosen")
    page.wait(lambda: [row["Site or link"] for row in page.rows("#sites")] == ["here"], "the site")
    assert page.all("#network circle")


def inks(page: Page) -> set[str]:
    """The colours on the canvas that cover more than a few points."""
    return set(
        page.script(
            """const canvas = document.getElementById("canvas"), seen = {};
            const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            for (let n = 0; n < data.length; n += 4) {
              const ink = data.slice(n, n + 3).join();
              if (data[n + 3] === 255) seen[ink] = (seen[ink] || 0) + 1;
            }
            return Object.keys(seen).filter((ink) => seen[ink] > 50);"""
        )
    )


def test_the_map_draws_objects_and_answers(page: Page) -> None:
    page.go("map")
    page.wait(lambda: page.one("#map-stream").get_attribute("value") == "flights", "the stream")
    page.wait(lambda: "in range" in page.text("#layers"), "the answer")

    layers = {layer.find_element("css selector", "label").text: layer for layer in page.all(".layer")}
    for name, layer in layers.items():
        box = layer.find_element("css selector", "input")
        if box.is_selected() != (name == "around"):
            box.click()
    swatch = (
        layers["around"].find_element("css selector", ".swatch").value_of_css_property("background-color")
    )
    range_, grey = ",".join(re.findall(r"\d+", swatch)[:3]), "138,148,164"  # --dot of style.css
    page.wait(lambda: {grey, range_} <= inks(page), "objects and the range")
    layers["around"].find_element("css selector", "input").click()
    page.wait(lambda: range_ not in inks(page), "the range to go")
    before = page.script("return document.getElementById('canvas').toDataURL()")
    page.one("#zoom-in").click()
    assert page.script("return document.getElementById('canvas').toDataURL()") != before


@pytest.mark.parametrize(
    ("stream", "name", "said", "colours"),
    [("targets", "dense", "clusters, ", 4), ("photons", "vela", "4 items, up to ", 1)],
)
def test_the_map_draws_clusters_and_nearest(
    page: Page, stream: str, name: str, said: str, colours: int
) -> None:
    """Clusters in several colours; of the nearest the point and its items in one."""
    palette = {"42,120,214", "27,175,122", "217,138,0", "106,79,196", "212,71,92", "15,154,168", "176,71,157"}
    page.go("map")
    page.wait(lambda: page.all("#map-stream option"), "the streams")
    page.one(f'#map-stream option[value="{stream}"]').click()
    page.wait(lambda: said in page.text("#layers"), "the answer")
    page.one(f'button[aria-label="Zoom to {name}"]').click()
    page.wait(lambda: len(palette & inks(page)) >= colours, "its colours")


@pytest.mark.parametrize("name", ["overview", "subscriptions", "plan", "map"])
def test_on_a_phone_nothing_is_cut_off(page: Page, name: str) -> None:
    looks(page.driver, 390, 844, phone=True)
    page.go(name)
    page.wait(lambda: page.text("main"), "the page")
    assert page.script("return document.documentElement.scrollWidth") <= 390


def test_dark_and_light(page: Page) -> None:
    def ground() -> str:
        return str(page.script("return getComputedStyle(document.body).backgroundColor"))

    light = ground()
    looks(page.driver, 1280, 900, dark=True)
    assert ground() != light
