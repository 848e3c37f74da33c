"""Job files for tests: one that is right, and how to change it."""

from __future__ import annotations

from pathlib import Path

GOOD = """\
[stream.photons]
source = { format = "parquet", path = "photons/*.parquet" }
time = "det_time"
position = ["ra", "dec"]

[[subscription]]
name = "vela"
query = "SELECT ra, dec, en FROM photons WHERE en > 1.3"

[sink]
format = "parquet"
path = "out"
"""


def write_job(folder: Path, text: str = GOOD, name: str = "job.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def changed(*pairs: tuple[str, str]) -> str:
    """The good job with some of its text replaced."""
    text = GOOD
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text
