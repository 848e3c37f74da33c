"""A sink whose catalog is in PostgreSQL: who finds it, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anabranch.catalog.bond import open_bonded
from anabranch.catalog.catalog import Catalog
from anabranch.catalog.job import load_job
from anabranch.catalog.layout import Layout, layout_for, layout_of
from anabranch.model.errors import JobError
from tests.catalog.jobs import GOOD, write_job
from tests.catalog.streams import registered


@pytest.fixture
def hidden(tmp_path: Path) -> Path:
    made = Layout(tmp_path / "out").hidden
    made.mkdir(parents=True)
    return made


def test_a_job_names_its_catalog(tmp_path: Path) -> None:
    url = "postgresql://ann@db.example/jobs?options=-csearch_path%3Dvela"
    loaded = load_job(write_job(tmp_path, f'{GOOD}\n[engine]\ncatalog = "{url}"'))
    assert layout_for(loaded).catalog == url
    for other in ("jobs.sqlite", "mysql://db.example/jobs", ""):
        with pytest.raises(JobError, match=r"catalog = .* cannot be; it must be the URL of a PostgreSQL"):
            load_job(write_job(tmp_path, f'{GOOD}\n[engine]\ncatalog = "{other}"'))


def test_the_folder_of_the_sink_is_enough(hidden: Path, postgres_catalog: str) -> None:
    with open_bonded(hidden, postgres_catalog) as catalog:
        registered(catalog)
    with Catalog.existing(layout_of(hidden.parent).catalog) as found:
        assert list(found.streams()) == ["photons"]
    assert os.stat(hidden / "catalog.json").st_mode & 0o077 == 0
    open_bonded(hidden, postgres_catalog).close()  # and again


def test_another_catalog_under_a_sink(hidden: Path, postgres_catalog: str) -> None:
    open_bonded(hidden, postgres_catalog).close()
    for other in (None, f"{postgres_catalog}x"):
        with pytest.raises(JobError, match="undo the change, or choose another sink"):
            open_bonded(hidden, other)
    (hidden / "catalog.json").unlink()
    Catalog(hidden / "catalog.sqlite").close()
    with pytest.raises(JobError, match="is the SQLite file"):
        open_bonded(hidden, postgres_catalog)


def test_one_catalog_two_sinks(hidden: Path, tmp_path: Path, postgres_catalog: str) -> None:
    open_bonded(hidden, postgres_catalog).close()
    other = Layout(tmp_path / "other").hidden
    other.mkdir(parents=True)
    with pytest.raises(JobError, match=r"belongs to another sink.*csearch_path%3Dname"):
        open_bonded(other, postgres_catalog)
    assert not list(other.iterdir())
    hidden.parent.rename(tmp_path / "moved")  # a sink that moves keeps its catalog
    open_bonded(Layout(tmp_path / "moved").hidden, postgres_catalog).close()


def test_a_catalog_that_was_emptied(hidden: Path, postgres: str, postgres_catalog: str) -> None:
    import psycopg

    open_bonded(hidden, postgres_catalog).close()
    with psycopg.connect(postgres_catalog, autocommit=True) as connection:
        connection.execute("DELETE FROM meta WHERE key = 'sink'")
    open_bonded(hidden, postgres_catalog).close()  # a first start that was cut short
    (hidden / "manifests" / "photons.filters").mkdir(parents=True)
    (hidden / "manifests" / "photons.filters" / "latest").write_text("3")
    with psycopg.connect(postgres_catalog, autocommit=True) as connection:
        connection.execute("DELETE FROM meta WHERE key = 'sink'")
    with pytest.raises(JobError, match=r"is empty, and the sink .* has used it: restore it"):
        open_bonded(hidden, postgres_catalog)
