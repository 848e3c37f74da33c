"""`anabranch list`: the subscriptions of a job."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import typer

from anabranch.cli.common import print_table
from anabranch.cli.place import Where, place


class Form(StrEnum):
    TABLE = "table"
    JSON = "json"


#: Shown where somebody's results are sent: rows that arrived, batches that have not been sent yet.
SENT = ("receiver", "sent", "behind", "error")


def list_subscriptions(
    target: Where,
    every: Annotated[bool, typer.Option("--all", help="Also those that were cancelled.")] = False,
    form: Annotated[Form, typer.Option("--format", help="How to show them.")] = Form.TABLE,
) -> None:
    """List the subscriptions of a job that has run.

    Example: anabranch list out --all --format json
    """
    with place(target) as job:
        found = job.subscriptions(every)
    if form is Form.JSON:
        for facts in found:
            typer.echo(json.dumps(facts, ensure_ascii=False))
        return
    sent = any(facts["delivery"] for facts in found)
    rows = [
        (
            *(facts[key] for key in ("number", "name", "stream", "kind", "state")),
            _said(facts["activate"]),
            _said(facts["cancel"]),
            *(_said((facts["delivery"] or {}).get(key)) for key in (SENT if sent else ())),
            " ".join(facts["query"].split()),
        )
        for facts in found
    ]
    title = ("number", "name", "stream", "kind", "state", "activate", "cancel", *(SENT if sent else ()))
    print_table((*title, "query"), rows, right=("number", "sent", "behind"))


def _said(time: Any) -> str:
    return "" if time is None else str(time)
