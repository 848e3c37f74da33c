"""`anabranch explain`: shows who shares what with whom, and what it costs."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from anabranch.cli.common import Target, columns_of, print_table

if TYPE_CHECKING:
    from anabranch.planning.explain import Explanation

#: So many subscriptions are listed: those that would cost most alone.
MOST_LISTED = 20


class ExplainForm(StrEnum):
    TABLE = "table"
    JSON = "json"
    MERMAID = "mermaid"


def explain(
    target: Target,
    form: Annotated[ExplainForm, typer.Option("--format", help="How to show it.")] = ExplainForm.TABLE,
) -> None:
    """Show who shares what with whom, and what it costs: rows, bytes and CPU per 1,000 items.

    Example: anabranch explain job.toml --format mermaid
    """
    from anabranch.service.explanation import explanation_of

    explanation = explanation_of(target, columns_of)
    match form:
        case ExplainForm.JSON:
            typer.echo(json.dumps(explanation.to_json(), indent=2, ensure_ascii=False))
        case ExplainForm.MERMAID:
            typer.echo(explanation.mermaid())
        case ExplainForm.TABLE:
            print_explanation(explanation)


def print_explanation(explanation: Explanation, file: TextIO | None = None) -> None:
    from anabranch.planning.explain import NUMBERS, TITLE

    print_table(TITLE, explanation.rows(), right=NUMBERS, file=file)
    costs = explanation.costs
    dearest = sorted(costs.alone, key=lambda name: -costs.alone[name])[:MOST_LISTED]
    if dearest:
        print(file=file)
        title = ("subscription", "CPU us alone", "CPU us shared")
        rows = [(name, f"{costs.alone[name]:,.1f}", f"{costs.shared[name]:,.1f}") for name in dearest]
        print_table(title, rows, right=title[1:], file=file)
        if len(costs.alone) > len(dearest):
            more = len(costs.alone) - len(dearest)
            print(f"... and {more:,} that cost less; --format json lists all", file=file)
        print(file=file)
    for line in explanation.summary:
        print(line, file=file)
