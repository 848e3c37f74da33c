"""`anabranch subscribe`: adds a query to a job, whether it runs or not."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from anabranch.cli.common import moment_of
from anabranch.cli.target import TargetOrAddress, open_target


def subscribe(
    target: TargetOrAddress,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="What the subscription is to be called.", show_default=False)
    ],
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY", help="The query; - reads it from standard input.", show_default=False
        ),
    ],
    activate: Annotated[
        str | None,
        typer.Option(metavar="T", help="See only the items after this time.", show_default=False),
    ] = None,
    deliver: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Also send its results to a receiver: https://example.org/hook, or kafka:topic@broker:9092.",
            show_default=False,
        ),
    ] = None,
    site: Annotated[
        str | None,
        typer.Option(metavar="SITE", help="Of a network: the site that reads it.", show_default=False),
    ] = None,
) -> None:
    """Add a query to a job that has run before. A running job activates it with one of its next batches.

    Example: anabranch subscribe out vela "SELECT ra, dec FROM photons WHERE en > 1.3"
    """
    time = moment_of(activate, "--activate")
    text = sys.stdin.read() if query == "-" else query
    with open_target(target, site) as job:
        new = job.subscribe(name, text, time, deliver)
    typer.echo(f"{name} is subscription {new['number']}: {new['kind']} on {new['stream']}")
    if new.get("secret"):
        typer.echo(f"requests are signed with {new['secret']} (shown once)", err=True)
    for line in getattr(job, "said", ()):  # where a planner had to choose
        typer.echo(f"  {line}")
