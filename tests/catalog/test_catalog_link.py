"""A sink whose catalog is in PostgreSQL: who finds it, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.catalog_link import open_linked
from anabranch.job.job_file import load_job
from anabranch.model.errors import JobError
from anabranch.results.layout import Layout, layout_for, layout_of
from tests.catalog.streams import registered
from tests.job.jobs import GOOD, write_job


@pytest.fixture
def hidden(tmp_path: Path) -> Path:
    folder = Layout(tmp_path / "out").hidden
    folder.mkdir(parents=True)
    return folder


def test_a_job_names_its_catalog(tmp_path: Path) -> None:
    url = "postgresql://ann@db.example/jobs?options=-csearch_path%3Dvela"
    loaded = load_job(write_job(tmp_path, f'{GOOD}\n[engine]\ncatalog = "{url}"'))
    assert layout_for(loaded).catalog == url
    for other in ("jobs.sqlite", "mysql://db.example/jobs", ""):
        with pytest.raises(JobError, match=r"catalog = .* cannot be; it must be the URL of a PostgreSQL"):
            load_job(write_job(tmp_path, f'{GOOD}\n[engine]\ncatalog = "{other}"'))


def test_the_folder_of_the_sink_is_enough(hidden: Path, postgres_catalog: str) -> None:
    with open_linked(hidden, postgres_catalog) as catalog:
        registered(catalog)
    with Catalog.existing(layout_of(hidden.parent).catalog) as found:
        assert list(found.streams()) == ["photons"]
    assert os.stat(hidden / "catalog.json").st_mode & 0o077 == 0
    open_linked(hidden, postgres_catalog).close()  # and again


def test_another_catalog_under_a_sink(hidden: Path, postgres_catalog: str) -> None:
    open_linked(hidden, postgres_catalog).close()
    for other in (None, f"{postgres_catalog}x"):
        with pytest.raises(JobError, match="undo the change, or choose another sink"):
            open_linked(hidden, other)
    (hidden / "catalog.json").unlink()
    Catalog(hidden / "catalog.sqlite").close()
    with pytest.raises(JobError, match="is the SQLite file"):
        open_linked(hidden, postgres_catalog)


def test_one_catalog_two_sinks(hidden: Path, tmp_path: Path, postgres_catalog: str) -> None:
    open_linked(hidden, postgres_catalog).close()
    other = Layout(tmp_path / "other").hidden
    other.mkdir(parents=True)
    with pytest.raises(JobError, match=r"belongs to another sink.*csearch_path%3Dname"):
        open_linked(other, postgres_catalog)
    assert not list(other.iterdir())
    hidden.parent.rename(tmp_path / "moved")  # a sink that moves keeps its catalog
    open_linked(Layout(tmp_path / "moved").hidden, postgres_catalog).close()


def test_a_catalog_that_was_emptied(hidden: Path, postgres: str, postgres_catalog: str) -> None:
    import psycopg

    open_linked(hidden, postgres_catalog).close()
    with psycopg.connect(postgres_catalog, autocommit=True) as connection:
        connection.execute("DELETE FROM meta WHERE key = 'sink'")
    open_linked(hidden, postgres_catalog).close()  # a first start that was cut short
    (hidden / "manifests" / "photons.filters").mkdir(parents=True)
    (hidden / "manifests" / "photons.filters" / "latest").write_text("3")
    with psycopg.connect(postgres_catalog, autocommit=True) as connection:
        connection.execute("DELETE FROM meta WHERE key = 'sink'")
    with pytest.raises(JobError, match=r"is empty, and the sink .* has used it: restore it"):
        open_linked(hidden, postgres_catalog)
