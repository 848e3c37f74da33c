"""The archive of Spark's classes: one session writes it, those that follow use it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from anabranch.spark import java


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(java, "_archive_name", lambda: "spark-1.jsa")
    return tmp_path / "anabranch"


def test_one_session_writes_the_archive_and_later_ones_use_it(cache: Path) -> None:
    new = cache / "spark-1.jsa.new"
    assert f"-XX:ArchiveClassesAtExit={new}" in java.java_options(short=True)
    assert "jsa" not in java.java_options(short=True)  # the first session has not ended
    (cache / "spark-0.jsa").touch()  # of another version of Spark
    new.touch()
    assert "jsa" not in java.java_options(short=True)  # it may still be written
    os.utime(new, (time.time() - 100, time.time() - 100))
    assert f"-XX:SharedArchiveFile={cache / 'spark-1.jsa'}" in java.java_options(short=False)
    assert [path.name for path in cache.iterdir()] == ["spark-1.jsa"]


def test_a_claim_of_a_session_that_was_killed_ends(cache: Path) -> None:
    assert "ArchiveClassesAtExit" in java.java_options(short=True)
    claim = cache / "spark-1.jsa.claim"
    long_ago = time.time() - 2 * 24 * 3600
    os.utime(claim, (long_ago, long_ago))
    assert "ArchiveClassesAtExit" in java.java_options(short=True)


def test_options_depend_on_what_runs(cache: Path) -> None:
    short, service = java.java_options(short=True), java.java_options(short=False)
    assert "-Xss64m" in short
    assert "-Xss64m" in service
    assert "TieredStopAtLevel=1" in short
    assert "TieredStopAtLevel" not in service


def test_without_a_folder_to_write_to_it_starts_without_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert "jsa" not in java.java_options(short=True)
