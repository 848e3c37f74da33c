"""`anabranch simulate clusters`: the experiments of Chandi, six strategies side by side, in one process."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.cli.common import TableForm, print_table

if TYPE_CHECKING:
    from anabranch.model.arrays import Floats
    from anabranch.simulate.clusters.experiment import FigureRow


class ClusterData(StrEnum):
    TARGETS = "targets"
    TRADES = "trades"


def clusters(
    queries: Annotated[int, typer.Option(min=1, help="So many queries with arbitrary parameters.")] = 20,
    tuples: Annotated[
        int | None, typer.Option(min=1, help="Length of the stream.", show_default="10,000; --full: 100,000")
    ] = None,
    strategies: Annotated[
        str | None, typer.Option(help="Some of them, with commas between.", show_default="all six")
    ] = None,
    case: Annotated[str, typer.Option(help="What is arbitrary: count, range, .. or all four.")] = "all four",
    data: Annotated[ClusterData, typer.Option(help="Moving targets or trades.")] = ClusterData.TARGETS,
    trades: Annotated[
        Path | None,
        typer.Option(help="Recorded trades: parquet with time_us and price.", show_default="generated"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the queries.")] = 0,
    figures: Annotated[
        str | None,
        typer.Option(help="Figures of the paper, or all: 18-19,31-32", show_default="one group of queries"),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Windows, groups and queries as in the paper.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="A folder for plots and JSON.", show_default=False)] = None,
    form: Annotated[
        TableForm, typer.Option("--format", help="A table, or one object per line.")
    ] = TableForm.TABLE,
) -> None:
    """Many clusters queries at once: Anabranch, Chandi, Extra-N and incremental DBSCAN side by side.

    Example: anabranch simulate clusters --queries 20 --tuples 5000 --format json
    """
    from anabranch.simulate.clusters.experiment import FIGURES, SHRINK, measure, warm_up
    from anabranch.simulate.clusters.strategies import STRATEGIES
    from anabranch.simulate.clusters.workloads import CASES, group

    names = _chosen("strategy", strategies, tuple(STRATEGIES))
    _chosen("case", case, tuple(CASES))
    points = _points(data, trades, tuples or (100_000 if full else 10_000))
    if figures is not None:
        _figures(points, names, _chosen("figure", figures, tuple(FIGURES)), full, out, form, data)
        return
    warm_up(names, points.shape[1])
    asked = group(case, queries, seed, 1 if full else SHRINK)
    rows = [measure(name, asked, points) for name in names]
    if form is TableForm.JSON:
        for row in rows:
            facts = asdict(row)
            print(
                json.dumps(
                    {name: facts[name] for name in ("strategy", "cpu_ms_per_tuple", "bytes", "clusters")}
                )
            )
        return
    columns = ("strategy", "CPU, µs per tuple", "structure, MB", "clusters")
    table = [
        (row.strategy, f"{row.cpu_ms_per_tuple * 1e3:,.4g}", f"{row.bytes / 1e6:,.4g}", row.clusters)
        for row in rows
    ]
    print_table(columns, table, right=columns[1:3])


def _chosen(what: str, given: str | None, known: tuple[str, ...]) -> list[str]:
    """Names from a list with commas; all of them where none is given, or `all`."""
    if given is None or given == "all":
        return list(known)
    names = [name.strip() for name in given.split(",")]
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"there is no {what} '{name}'; there are {', '.join(known)}")
    return names


def _points(data: ClusterData, file: Path | None, count: int) -> Floats:
    from anabranch.simulate.clusters.workloads import moving_targets
    from anabranch.simulate.clusters.workloads import trades as read_trades

    if data is ClusterData.TRADES or file is not None:
        return read_trades(file, count)
    return moving_targets(count)


def _figures(
    points: Floats,
    names: list[str],
    wanted: list[str],
    full: bool,
    out: Path | None,
    form: TableForm,
    data: str,
) -> None:
    from anabranch.simulate.clusters.experiment import figures, search_only
    from anabranch.simulate.clusters.workloads import group

    rows = []
    for row in figures(points, names, wanted, full):
        rows.append(row)
        print(f"  {row.case}, {row.queries} queries: {row.strategy}", file=sys.stderr, flush=True)
    if form is TableForm.JSON:
        for row in rows:
            print(json.dumps(asdict(row)))
    else:
        _show(rows)
        alone = search_only(group("all four", 20, 0, 1 if full else 5), points)
        typer.echo(f"\none range search at the largest range, alone: {alone * 1e3:.3g} µs per tuple")
    if out is not None:
        from anabranch.simulate.clusters.figure_plots import draw

        measured: dict[str, Any] = {}
        for row in rows:
            cell = {"cpu_us": row.cpu_ms_per_tuple * 1e3, "bytes": row.bytes}
            measured.setdefault(row.case, {}).setdefault(row.queries, {})[row.strategy] = cell
        files = draw(measured, out)
        (out / f"clusters-{data}.json").write_text(json.dumps([asdict(row) for row in rows], indent=1))
        typer.echo(f"plots: {', '.join(str(file) for file in files)}", err=True)


def _show(rows: list[FigureRow]) -> None:
    columns = (
        "figure",
        "arbitrary",
        "queries",
        "strategy",
        "CPU, µs per tuple",
        "of it search",
        "MB",
        "saving",
    )
    cells = []
    for row in rows:
        search = "" if row.search_ms_per_tuple is None else f"{row.search_ms_per_tuple * 1e3:,.3g}"
        saving = ""
        if row.least_saving is not None and row.most_saving is not None and row.strategy != "extra-n-rqs":
            saving = f"{row.least_saving:.0%} .. {row.most_saving:.0%}"
        figures = (f"{row.cpu_ms_per_tuple * 1e3:,.4g}", search, f"{row.bytes / 1e6:,.3g}", saving)
        cells.append((row.figure, row.case, f"{row.queries:,}", row.strategy, *figures))
    print_table(columns, cells, right=("queries", *columns[4:]))
