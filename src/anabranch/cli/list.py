"""`anabranch list`: the subscriptions of a job."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from anabranch.catalog.entries import ACTIVE
from anabranch.cli.common import TableForm, print_table
from anabranch.cli.target import TargetOrAddress, open_target

#: Shown where results are sent to a receiver: rows that arrived, batches that have not been sent yet.
DELIVERY = ("receiver", "sent", "behind", "error")


def list_subscriptions(
    target: TargetOrAddress,
    every: Annotated[bool, typer.Option("--all", help="Also those that were cancelled.")] = False,
    form: Annotated[TableForm, typer.Option("--format", help="How to show them.")] = TableForm.TABLE,
) -> None:
    """List the subscriptions of a job that has run.

    Example: anabranch list out --all --format json
    """
    with open_target(target) as job:
        subscriptions = job.subscriptions(every)
    if form is TableForm.JSON:
        for facts in subscriptions:
            typer.echo(json.dumps(facts, ensure_ascii=False))
        return
    delivery = DELIVERY if any(facts["delivery"] for facts in subscriptions) else ()
    rows = [
        (
            *(facts[key] for key in ("number", "name", "stream", "kind")),
            _state(facts),
            _text(facts["activate"]),
            _text(facts["cancel"]),
            *(_text((facts["delivery"] or {}).get(key)) for key in delivery),
            " ".join(facts["query"].split()),
        )
        for facts in subscriptions
    ]
    title = ("number", "name", "stream", "kind", "state", "activate", "cancel", *delivery)
    print_table((*title, "query"), rows, right=("number", "sent", "behind"))


def _state(facts: dict[str, Any]) -> str:
    """`suspended at item 7: it would give ...` in place of `active`"""
    is_suspended = facts["suspended"] is not None and facts["state"] == ACTIVE
    return f"suspended {facts['suspended']}" if is_suspended else str(facts["state"])


def _text(time: Any) -> str:
    return "" if time is None else str(time)
