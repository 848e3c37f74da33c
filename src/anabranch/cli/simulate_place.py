"""`anabranch simulate place`: the experiment of PLACE* on nine servers, in one process."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli.common import print_table


def place(
    scale: Annotated[
        float, typer.Option(min=0.001, max=1, help="Share of the paper's objects and queries.")
    ] = 0.1,
    full: Annotated[bool, typer.Option("--full", help="The paper's size; takes an hour.")] = False,
    seconds: Annotated[int, typer.Option(min=1, help="Seconds measured, after everybody has reported.")] = 10,
    seed: Annotated[int, typer.Option(help="Of the objects and queries.")] = 0,
    out: Annotated[Path | None, typer.Option(help="A folder for plots and JSON.", show_default=False)] = None,
) -> None:
    """PLACE*: response times, local results and handoffs of ranges and nearest objects on 3 x 3 servers.

    Example: anabranch simulate place --out plots
    """
    from anabranch.simulate.place import experiment
    from anabranch.simulate.place.world import PAPER

    size = PAPER if full else PAPER.scaled(scale)
    typer.echo(
        f"{size.objects:,} objects, {9 * size.queries:,} queries on 9 servers, a report every 30 s", err=True
    )
    found = []
    for one in experiment.outcomes(size, seconds, seed):
        found.append(one)
        at = f"k = {one.at:g}" if one.kind == "nearest" else f"{100 * one.at:g} %"
        print(f"  {one.kind}, {at}: {one.crossings} handoffs", file=sys.stderr, flush=True)
    tables = list(experiment.tables(found))
    for title, columns, rows in tables:
        typer.echo(f"\n{title}")
        print_table(columns, [[f"{cell:,.4g}" for cell in row] for row in rows], columns)
    enough = [one.enough for one in found if one.kind == "nearest"]
    typer.echo(f"\nslowest mean response time: {experiment.slowest(found):.3f} s")
    typer.echo(f"search regions that held k objects at once: {100 * min(enough):.1f} % or more")
    if out is not None:
        from anabranch.simulate.place.experiment import draw

        files = draw(tables, out)
        (out / "place.json").write_text(
            json.dumps([{"kind": one.kind, "at": one.at, **one.figures} for one in found], indent=1)
        )
        typer.echo(f"plots: {', '.join(str(file) for file in files)}")
