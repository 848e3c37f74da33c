"""What the commands have in common: their target, times as people give them, and tables."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from anabranch.model.errors import JobError
from anabranch.model.subscription import Moment

if TYPE_CHECKING:
    from anabranch.catalog.catalog import Catalog
    from anabranch.model.columns import Column
    from anabranch.model.job import StreamDeclaration
    from anabranch.results.layout import Layout


class TableForm(StrEnum):
    TABLE = "table"
    JSON = "json"


Target = Annotated[
    Path, typer.Argument(metavar="TARGET", help="A job.toml, or the folder of its sink.", show_default=False)
]


def opened(target: Path) -> tuple[Layout, Catalog]:
    """Returns the layout and the catalog of a job that has run."""
    from anabranch.catalog.catalog import Catalog
    from anabranch.results.layout import layout_of

    layout = layout_of(target)
    return layout, Catalog.existing(layout.catalog)


def columns_of(declaration: StreamDeclaration) -> tuple[Column, ...]:
    """Returns the columns of a source; starts Spark only where nothing else can read it."""
    from anabranch.job.source_files import NeedsSpark, SourceFiles

    try:
        return SourceFiles(declaration).columns()
    except NeedsSpark:
        from anabranch.spark.session import make_session
        from anabranch.spark.sources import infer

        spark = make_session("anabranch")
        try:
            return infer(spark, declaration)[1]
        finally:
            spark.stop()


def moment_of(text: str | None, option: str) -> Moment | None:
    """Returns a time from the command line: a number in the units of the stream's time, or a date."""
    if text is None:
        return None
    for read in (int, float, datetime.fromisoformat):
        try:
            value = read(text)
        except ValueError:
            continue
        if value == value and value not in (float("inf"), float("-inf")):
            return value
    raise JobError(f"{option} {text} is not a time: give a number, or a date such as 2026-01-31T12:00:00Z")


def print_table(
    title: Sequence[str],
    rows: Iterable[Sequence[Any]],
    right: Sequence[str] = (),
    file: TextIO | None = None,
) -> None:
    """Prints a table. On a terminal it is folded to fit; in a pipe a line is as long as it needs to be."""
    file = file or sys.stdout
    texts = [[str(cell) for cell in row] for row in rows]
    if file.isatty():
        _print_folded(title, texts, right, file)
        return
    widths = [max(map(len, column)) for column in zip(title, *texts, strict=True)]
    for row in (list(title), *texts):
        cells = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for cell, width, name in zip(row, widths, title, strict=True)
        ]
        print(" ".join(cells).rstrip(), file=file)


def _print_folded(title: Sequence[str], rows: list[list[str]], right: Sequence[str], file: TextIO) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in title:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console(file=file, highlight=False).print(table)
