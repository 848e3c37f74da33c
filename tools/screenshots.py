"""Makes the pictures of docs/dashboard.md: python -m tools.screenshots [FOLDER]

The subscriptions are those of `anabranch demo`, about 300, and some to look at more closely. The stages run
in this process, without Spark, as in the browser tests.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from anabranch.catalog.registration import bind_subscription
from anabranch.cli.tour import tour_queries
from anabranch.model.subscription import Subscription
from anabranch.planning.scenario import Scenario, read_scenario
from tests.e2e.browser import chromium, looks, missing
from tests.e2e.engine import LocalJob
from tests.e2e.streams import generated

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

HERE = Path(__file__).parents[1]
VELA = "ra BETWEEN 120 AND 138 AND dec BETWEEN -49 AND -40"
QUERIES = {
    "vela_hottest": f"SELECT ra, dec, en FROM photons WHERE {VELA} AND en >= 5",
    "vela_hot_2": f"SELECT ra, dec, en FROM photons WHERE {VELA} AND en >= 1.3",
    "vela_west": f"SELECT ra, en FROM photons WHERE {VELA} AND ra <= 129",
    "vela_west_hot": f"SELECT ra, en FROM photons WHERE {VELA} AND ra <= 129 AND en >= 1.3",
    "vela_core": "SELECT ra, dec, en FROM photons WHERE ra BETWEEN 126 AND 130 AND dec BETWEEN -47 AND -43",
    "vela_mean": f"SELECT avg(en) AS mean, count(*) AS n FROM photons WHERE {VELA} WINDOW RANGE 4 STEP 2",
    "vela_slow": f"SELECT avg(en) AS mean FROM photons WHERE {VELA} WINDOW RANGE 8 STEP 4",
    "core": "SELECT NEAREST 8 TO (128.8, -45.2) BY (ra, dec) FROM photons WINDOW RANGE 4",
    "convoys": "SELECT CLUSTERS WITHIN 0.02 MIN 8 BY (latitude, longitude) FROM targets "
    "WINDOW ROWS 2000 STEP 500",
    "near_paris": "SELECT OBJECTS WITHIN 25 OF OBJECT '390001' FROM flights",
    "three_nearest": "SELECT NEAREST 3 OBJECTS TO OBJECT '390013' FROM flights",
    "south": "SELECT OBJECTS IN BOX 30 BY 20 AROUND (2.36, 48.35) FROM flights",
    "map-flights": "SELECT icao24, longitude, latitude FROM flights",
    "map-targets": "SELECT latitude, longitude FROM targets",
}
QUERIES = {name: query for name, query in tour_queries().items() if "sensors" not in query} | QUERIES
FIRST_S = 15
HISTORY_S = 240  # most of the five minutes that a chart shows


def main(folder: Path) -> None:
    why = missing()
    if why:
        raise SystemExit(why)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        job = LocalJob(Path(temporary) / "out", generated(), pause_s=0.5)
        job.catalog.subscribe_many(
            [bind_subscription(Subscription(n, q), job.streams) for n, q in QUERIES.items()]
        )
        for _ in range(4):  # the first batches take longer: not what the pictures are about
            job.step()
            time.sleep(job.pause_s)
        with job.served(_network(Path(temporary))) as address, chromium() as driver:
            print("waiting for some batches, so that there is something to see ...", file=sys.stderr)
            time.sleep(FIRST_S)
            for name, page, prepare, look in PICTURES:
                if name == "overview":
                    driver.get(address)  # how long a batch took is known only while somebody looks
                    time.sleep(HISTORY_S)
                _take(driver, address, page, prepare, look, folder / f"{name}.png")


def _network(folder: Path) -> Scenario:
    """The paper's cube, with slow links, and half of the subscriptions wanted elsewhere."""
    from anabranch.simulate.scenarios import CUBE

    lines = [f"[site.SP{n}]\ncapacity = 0.4" for n in range(8)]
    lines += [f'[[link]]\nbetween = ["SP{a}", "SP{b}"]\nbandwidth_mbit = 1' for a, b in CUBE]
    lines += [
        '[stream.photons]\nsite = "SP4"',
        '[stream.targets]\nsite = "SP0"',
        '[stream.flights]\nsite = "SP2"',
    ]
    for index, (name, text) in enumerate(QUERIES.items()):
        lines.append(f'[[query]]\nname = "{name}"\nsite = "SP{index * 5 % 8}"\nquery = """{text}"""')
    file = folder / "network.toml"
    file.write_text("\n".join(lines))
    return read_scenario(file)


def _watch(driver: Chrome, name: str) -> None:
    driver.find_element("css selector", f'tr[data-name="{name}"] button').click()
    time.sleep(3)


def _type(driver: Chrome) -> None:
    driver.find_element("id", "query").send_keys("SELECT ra, dec FROM photons WHERE enn >= 1.3")
    driver.find_element("id", "name").send_keys("vela_2")
    driver.find_element("id", "search").send_keys("vela")
    time.sleep(2)
    _watch(driver, "vela_mean")


def _way(driver: Chrome) -> None:
    driver.find_element("id", "plan-name").send_keys("vela_west_hot")
    driver.find_element("css selector", "#plan-find button").click()
    time.sleep(2)


def _stream(name: str) -> Callable[[Chrome], None]:
    def choose(driver: Chrome) -> None:
        driver.find_element("css selector", f'#map-stream option[value="{name}"]').click()
        until = time.monotonic() + 60
        while "reading" in (text := driver.find_element("id", "layers").text) or not re.search(
            r"\d (obj|clus)", text
        ):
            if time.monotonic() > until:
                raise SystemExit(f"the map of {name} did not come: {text}")
            time.sleep(0.5)
        time.sleep(2)

    return choose


def _nothing(driver: Chrome) -> None:
    pass


Look = dict[str, int | bool]
WIDE: Look = {"width": 1280, "height": 780}
DARK: Look = WIDE | {"dark": True}
PHONE: Look = {"width": 390, "height": 844, "phone": True}
PICTURES: list[tuple[str, str, Callable[[Chrome], None], Look]] = [
    ("subscriptions", "subscriptions", _type, WIDE),
    ("plan", "plan", _nothing, WIDE),
    ("plan-way", "plan", _way, WIDE),
    ("map", "map", _stream("flights"), WIDE),
    ("map-dark", "map", _stream("targets"), DARK),
    ("map-phone", "map", _stream("flights"), PHONE),
    ("overview", "overview", _nothing, WIDE),
    ("overview-dark", "overview", _nothing, DARK),
]


def _take(
    driver: Chrome, address: str, page: str, prepare: Callable[[Chrome], None], look: Look, file: Path
) -> None:
    driver.get("about:blank")
    looks(driver, **look)
    driver.get(f"{address}/#{page}")
    time.sleep(4)
    prepare(driver)
    bottom = driver.execute_script("return Math.ceil(document.documentElement.scrollHeight)")
    looks(driver, **look | {"height": max(int(look["height"]), min(bottom, 1700))})
    driver.execute_script("document.activeElement.blur(); window.scrollTo(0, 0)")
    time.sleep(3)
    shot = Image.open(BytesIO(driver.get_screenshot_as_png())).convert("RGB")
    if look.get("phone"):
        shot = shot.resize((shot.width * 3 // 4, shot.height * 3 // 4))
    shot.quantize(256, kmeans=1, dither=Image.Dither.NONE).save(file, optimize=True)
    print(f"{file} {file.stat().st_size // 1000} kB", file=sys.stderr)
    for entry in driver.get_log("browser"):
        print(f"  {entry['level']}: {entry['message']}", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "docs" / "pictures")
