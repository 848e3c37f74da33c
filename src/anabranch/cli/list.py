"""`anabranch list`: the subscriptions of a job."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import typer

from anabranch.catalog.entries import ACTIVE, Entry
from anabranch.cli.common import Target, opened, print_table


class Form(StrEnum):
    TABLE = "table"
    JSON = "json"


def list_subscriptions(
    target: Target,
    every: Annotated[bool, typer.Option("--all", help="Also those that were cancelled.")] = False,
    form: Annotated[Form, typer.Option("--format", help="How to show them.")] = Form.TABLE,
) -> None:
    """List the subscriptions of a job that has run.

    Example: anabranch list out --all --format json
    """
    _, catalog = opened(target)
    with catalog:
        entries = catalog.subscriptions(state=None if every else ACTIVE)
    if form is Form.JSON:
        for entry in entries:
            typer.echo(json.dumps(_facts(entry), ensure_ascii=False))
        return
    rows = [
        (
            e.number,
            e.name,
            e.stream,
            e.kind,
            e.state,
            _said(e.activate),
            _said(e.cancel),
            " ".join(e.query.split()),
        )
        for e in entries
    ]
    print_table(
        ("number", "name", "stream", "kind", "state", "activate", "cancel", "query"), rows, right=("number",)
    )


def _facts(entry: Entry) -> dict[str, Any]:
    names = ("number", "name", "label", "stream", "family", "kind", "state", "activate", "cancel")
    return {key: getattr(entry, key) for key in (*names, "origin", "created", "cancelled", "query")}


def _said(time: Any) -> str:
    return "" if time is None else str(time)
