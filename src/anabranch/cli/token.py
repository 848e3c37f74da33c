"""`anabranch token`: creates, lists and revokes the tokens of a job's service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from anabranch.catalog.tokens import Role, Tokens
from anabranch.cli.common import TableForm, Target, print_table
from anabranch.results.layout import layout_of

app = typer.Typer(no_args_is_help=True, help="Create, list and revoke the tokens of a job's service.")


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
    """Create a token and print it; it is not kept and cannot be shown again.

    Example: anabranch token create job.toml ann --role user
    """
    with _tokens(target) as tokens:
        typer.echo(tokens.create(owner, role))


@app.command("list")
def list_tokens(
    target: Target,
    form: Annotated[TableForm, typer.Option("--format", help="How to show them.")] = TableForm.TABLE,
) -> None:
    """List the tokens and their owners, never the tokens themselves.

    Example: anabranch token list job.toml
    """
    with _tokens(target) as tokens:
        known = tokens.all()
    if form is TableForm.JSON:
        for token in known:
            typer.echo(json.dumps(vars(token), ensure_ascii=False))
        return
    rows = [(each.id, each.owner, each.role, each.created, each.revoked or "") for each in known]
    print_table(("token", "owner", "role", "created", "revoked"), rows)


@app.command("revoke")
def revoke(
    target: Target,
    id: Annotated[
        str, typer.Argument(metavar="TOKEN", help="The token, as the list names it.", show_default=False)
    ],
) -> None:
    """Revoke a token, from the next request on.

    Example: anabranch token revoke job.toml 3f9c2a71
    """
    with _tokens(target) as tokens:
        token = tokens.revoke(id)
    typer.echo(f"token {token.id} of {token.owner} is revoked")
