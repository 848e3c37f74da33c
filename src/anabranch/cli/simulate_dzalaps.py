"""`anabranch simulate dzalaps`: the experiments of D-ZaLaPS, figures 8 to 16, and peers that fail."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.common import print_table
from anabranch.model.errors import JobError

if TYPE_CHECKING:
    from anabranch.simulate.dzalaps.experiments import Figure


def dzalaps(
    figures: Annotated[str, typer.Option(help="Which of the figures 8 to 16: 8-16, or 9,11.")] = "8-16",
    recorded: Annotated[
        Path | None,
        typer.Option(help="Recorded items, parquet; their order is shuffled.", show_default=False),
    ] = None,
    columns: Annotated[
        str, typer.Option(help="The coordinates in the recorded items.")
    ] = "ambient_temp,surface_temp,rel_humidity,wind_dir",
    full: Annotated[bool, typer.Option("--full", help="The paper's sizes (hours).")] = False,
    peers: Annotated[int | None, typer.Option(min=2, max=1024, help="Peers.", show_default="64")] = None,
    queries: Annotated[int | None, typer.Option(min=1, help="Queries.", show_default="100")] = None,
    window: Annotated[
        int | None, typer.Option(min=100, help="Items per window.", show_default="10000")
    ] = None,
    items: Annotated[
        int | None, typer.Option(min=100, help="Items after the warm-up.", show_default="5000")
    ] = None,
    buffer: Annotated[int | None, typer.Option(min=1, help="b: recent items.", show_default="500")] = None,
    gamma: Annotated[
        float | None, typer.Option(min=0.0, help="Pruning coefficient.", show_default="0.2")
    ] = None,
    resolution: Annotated[
        int | None, typer.Option(min=1, help="rho: cells along each dimension.", show_default="12")
    ] = None,
    sigma: Annotated[
        float | None, typer.Option(min=1e-9, max=0.5, help="The error of PA.", show_default="0.001")
    ] = None,
    k: Annotated[
        int | None, typer.Option(min=1, help="Neighbours, where they do not vary.", show_default="9")
    ] = None,
    churn: Annotated[
        bool, typer.Option("--churn/--no-churn", help="Let a tenth of the peers fail, depart, join.")
    ] = True,
    seed: Annotated[int, typer.Option(help="Of data, queries and peers.")] = 0,
    out: Annotated[Path | None, typer.Option(help="A folder for plots and JSON.", show_default=False)] = None,
) -> None:
    """k-NN queries over a network of peers: how many messages, and what is lost when peers fail.

    Example: anabranch simulate dzalaps --figures 9,11 --out plots
    """
    from anabranch.simulate.dzalaps.experiments import Laboratory, Scale

    wanted = _numbers(figures)
    start = Scale.full() if full else Scale()
    scale = replace(
        start,
        seed=seed,
        peers=peers or start.peers,
        queries=queries or start.queries,
        window=window or start.window,
        warm_up=max(start.warm_up, window) if window and full else window or start.warm_up,
        items=items or start.items,
        buffer=buffer or start.buffer,
        gamma=start.gamma if gamma is None else gamma,
        resolution=resolution or start.resolution,
        sigma=sigma or start.sigma,
        k=k or start.k,
        ks=start.ks if k is None else (k,),
    )
    laboratory = Laboratory(scale, recorded, columns.split(","), _progress)
    drawn = [laboratory.figure(number) for number in wanted]
    for figure in drawn:
        _show(figure)
    outcome = laboratory.churn() if churn else {}
    if outcome:
        typer.echo("\npeers that fail, depart and join, beside peers that stay")
        print_table(
            ("what", "count"), [(name, f"{value:,.4g}") for name, value in outcome.items()], right=("count",)
        )
    if out is not None:
        _write(out, drawn, outcome)


def _numbers(text: str) -> list[int]:
    from anabranch.simulate.dzalaps.experiments import FIGURES

    out: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            raise JobError(f"{text!r} names no figures: 8-16, or some of them like 9,11")
        out += range(int(first), int(last or first) + 1)
    unknown = [number for number in out if number not in FIGURES]
    if unknown:
        raise JobError(f"there is no figure {unknown[0]} here: 8 to 16 are the paper's experiments")
    return out


def _progress(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)


def _show(figure: Figure) -> None:
    typer.echo(f"\nfigure {figure.number}: {figure.title}")
    names = tuple(figure.series)
    rows = [
        (f"{x:,}", *(f"{figure.series[name][x]:,.4g}" for name in names)) for x in figure.series[names[0]]
    ]
    print_table((figure.along, *names), rows, right=(figure.along, *names))


def _write(folder: Path, figures: list[Figure], outcome: dict[str, float]) -> None:
    from anabranch.simulate.dzalaps.experiments import draw

    folder.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        draw(figure, folder / f"dzalaps-figure-{figure.number:02d}.png")
    tables = [
        {"figure": figure.number, "title": figure.title, "along": figure.along, "series": figure.series}
        for figure in figures
    ]
    (folder / "dzalaps.json").write_text(json.dumps({"figures": tables, "churn": outcome}, indent=1))
    typer.echo(f"\nplots and JSON are in {folder}")
