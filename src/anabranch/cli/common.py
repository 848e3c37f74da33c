"""What the commands have in common: their target, times as people give them, tables on a terminal or in a
pipe.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.layout import Layout, layout_of
from anabranch.model.errors import JobError
from anabranch.model.subscription import Moment

Target = Annotated[
    Path, typer.Argument(metavar="TARGET", help="A job.toml, or the folder of its sink.", show_default=False)
]


def opened(target: Path) -> tuple[Layout, Catalog]:
    """The layout and the catalog of a job that has run."""
    layout = layout_of(target)
    return layout, Catalog.existing(layout.catalog)


def moment_of(text: str | None, option: str) -> Moment | None:
    """A time from the command line: a number in the units of the stream's time, or a date."""
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


def print_table(title: Sequence[str], rows: Iterable[Sequence[Any]], right: Sequence[str] = ()) -> None:
    """A table; into a pipe it is as wide as it needs to be, so that nothing is cut."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    terminal = sys.stdout.isatty()
    table = Table(box=None, pad_edge=False, header_style="bold" if terminal else "")
    for name in title:
        table.add_column(
            name, justify="right" if name in right else "left", no_wrap=not terminal, overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    Console(width=None if terminal else 100_000, file=sys.stdout, highlight=False).print(table)
