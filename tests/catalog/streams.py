"""A stream for tests of the catalog."""

from __future__ import annotations

from typing import Any

from anabranch.catalog.catalog import Catalog
from anabranch.job.declarations import declare
from anabranch.model.columns import Column, ColumnType
from anabranch.model.job import Source, StreamDeclaration
from anabranch.model.stream import Stream

COLUMNS = (
    Column("det_time", ColumnType.FLOAT),
    Column("ra", ColumnType.FLOAT),
    Column("dec", ColumnType.FLOAT),
    Column("en", ColumnType.FLOAT),
    Column("name", ColumnType.STRING),
)


def declaration(name: str = "photons", path: str = "/data/photons", **settings: Any) -> StreamDeclaration:
    return StreamDeclaration(name, Source("parquet", {"path": path}), {"time": "det_time", **settings})


def photons(**settings: Any) -> Stream:
    return declare(declaration(**settings), COLUMNS)


def registered(catalog: Catalog) -> Catalog:
    catalog.register_stream(photons(), declaration())
    return catalog
