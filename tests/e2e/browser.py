"""Debian's Chromium without a window, driven by selenium over loopback.

In: nothing. Out: a driver. Never: a download; selenium is told where browser and driver are.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


def missing() -> str | None:
    """What there is not, and how to get it; None where all is there."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed: pip install -r requirements-dev.txt"
    found = shutil.which("chromium"), shutil.which("chromedriver")
    return None if all(found) else "Chromium is not installed: tools/chromium installs it"


@contextmanager
def chromium(width: int = 1280, height: int = 900) -> Iterator[Chrome]:
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in (
        "--headless=new",
        "--no-sandbox",  # tests may run as root, and see only pages of this machine
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--no-proxy-server",
        "--disable-background-networking",
        "--hide-scrollbars",
        f"--window-size={width},{height}",
    ):
        options.add_argument(argument)
    driver = Chrome(options, Service(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def looks(driver: Chrome, width: int, height: int, dark: bool = False, phone: bool = False) -> None:
    """What the page is shown on."""
    size = {"width": width, "height": height, "deviceScaleFactor": 2 if phone else 1, "mobile": phone}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
