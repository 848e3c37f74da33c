"""`anabranch token`: who may use the service of a job."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

import typer

from anabranch.catalog.layout import layout_of
from anabranch.catalog.tokens import Role, Tokens
from anabranch.cli.common import Target, print_table

app = typer.Typer(no_args_is_help=True, help="Make, list and revoke the tokens of a job's service.")


class Form(StrEnum):
    TABLE = "table"
    JSON = "json"


@contextmanager
def _tokens(target: Target) -> Iterator[Tokens]:
    tokens = Tokens(layout_of(target).catalog)
    try:
        yield tokens
    finally:
        tokens.close()


@app.command("create")
def create(
    target: Target,
    owner: Annotated[str, typer.Argument(metavar="OWNER", help="Whose it is.", show_default=False)],
    role: Annotated[
        Role, typer.Option(help="user: own subscriptions; viewer: sees all, changes nothing; admin: all.")
    ] = Role.USER,
) -> None:
    """Make a token and print it; it is not kept and cannot be shown again.

    Example: anabranch token create job.toml ann --role user
    """
    with _tokens(target) as tokens:
        typer.echo(tokens.create(owner, role))


@app.command("list")
def list_tokens(
    target: Target, form: Annotated[Form, typer.Option("--format", help="How to show them.")] = Form.TABLE
) -> None:
    """List the tokens: to whom they belong, never what they are.

    Example: anabranch token list job.toml
    """
    with _tokens(target) as tokens:
        found = tokens.all()
    if form is Form.JSON:
        for token in found:
            typer.echo(json.dumps(vars(token), ensure_ascii=False))
        return
    rows = [(each.id, each.owner, each.role, each.created, each.revoked or "") for each in found]
    print_table(("token", "owner", "role", "created", "revoked"), rows)


@app.command("revoke")
def revoke(
    target: Target,
    id: Annotated[
        str, typer.Argument(metavar="TOKEN", help="The token, as the list names it.", show_default=False)
    ],
) -> None:
    """End a token, from the next request on.

    Example: anabranch token revoke job.toml 3f9c2a71
    """
    with _tokens(target) as tokens:
        token = tokens.revoke(id)
    typer.echo(f"token {token.id} of {token.owner} is revoked")
