"""`anabranch explain`: shows who shares what with whom, and what it costs."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from anabranch.cli.common import Target, columns_of, print_table
from anabranch.cli.target import names_sites
from anabranch.model.errors import JobError

if TYPE_CHECKING:
    from anabranch.planning.explain import Explanation


class ExplainForm(StrEnum):
    TABLE = "table"
    JSON = "json"
    MERMAID = "mermaid"


def explain(
    target: Target,
    form: Annotated[ExplainForm, typer.Option("--format", help="How to show it.")] = ExplainForm.TABLE,
) -> None:
    """Show who shares what with whom, and what it costs: rows and bytes for 1,000 items, estimated from a
    sample of the source; and what the stages of a job that has run took, as measured.

    Example: anabranch explain job.toml --format mermaid
    """
    if names_sites(str(target)):
        _explain_network(target, form)
        return
    from anabranch.service.explanation import explanation_of

    explanation = explanation_of(target, columns_of)
    match form:
        case ExplainForm.JSON:
            typer.echo(json.dumps(explanation.to_json(), indent=2, ensure_ascii=False))
        case ExplainForm.MERMAID:
            typer.echo(explanation.mermaid())
        case ExplainForm.TABLE:
            print_explanation(explanation)


def _explain_network(target: Path, form: ExplainForm) -> None:
    from anabranch.cli.network import NetworkJob
    from anabranch.sites.explain import explained

    if form is ExplainForm.MERMAID:
        raise JobError("--format mermaid is for jobs; of a network there are table and json")
    network = NetworkJob(str(target))
    found = explained(network.planner.preview(), network.measured)
    if form is ExplainForm.JSON:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    links = [(" - ".join(one["between"]), one["bytes"], one["planned_bytes"]) for one in found["links"]]
    print_table(("link", "bytes", "planned"), links, right=("bytes", "planned"))
    typer.echo()
    sites = [(one["name"], one["cpu_seconds"], one["nodes"]) for one in found["sites"]]
    print_table(("site", "CPU s", "nodes"), sites, right=("CPU s", "nodes"))
    typer.echo()
    flows = [
        (one["flow"], " -> ".join(one["path"]), ", ".join(one["read_by"]), one["carries"])
        for one in found["flows"]
    ]
    print_table(("flow", "path", "read by", "carries"), flows, right=("flow",))


def print_explanation(explanation: Explanation, file: TextIO | None = None) -> None:
    from anabranch.planning.explain import MEASURED_TITLE, NUMBERS, TITLE

    print_table(TITLE, explanation.rows(), right=NUMBERS, file=file)
    if explanation.measured:
        print(file=file)
        print_table(MEASURED_TITLE, explanation.measured_rows(), right=MEASURED_TITLE[3:], file=file)
        print(file=file)
    for line in explanation.summary:
        print(line, file=file)
