"""`anabranch secret`: makes a new secret for the webhook of a subscription."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.cli.target import TargetOrAddress, open_target


def secret(
    target: TargetOrAddress,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The subscription.", show_default=False)],
) -> None:
    """Make a new secret that signs what is sent to a webhook, and print it; the old one signs no more.

    Example: anabranch secret job.toml hot
    """
    with open_target(target) as job:
        typer.echo(job.new_secret(name))
