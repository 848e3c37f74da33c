"""`anabranch explain`: who shares what with whom, and what it costs.

In: a job, or what it left in its sink. Out: a table, JSON, or a diagram for mermaid. Never: a batch of the
stream.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.catalog.entries import Entry, NewSubscription
from anabranch.catalog.layout import layout_for
from anabranch.catalog.sqlite import Catalog
from anabranch.cli.common import Target, opened, print_table
from anabranch.model.job import Job
from anabranch.model.stream import Stream

if TYPE_CHECKING:
    from anabranch.cli.sharing import Group

#: So many names of a group are shown in a table.
MOST_NAMED = 8


class Form(StrEnum):
    TABLE = "table"
    JSON = "json"
    MERMAID = "mermaid"


def explain(
    target: Target,
    form: Annotated[Form, typer.Option("--format", help="How to show it.")] = Form.TABLE,
) -> None:
    """Show who shares what with whom: equal conditions, and conditions that contain others.

    Example: anabranch explain job.toml --format mermaid
    """
    from anabranch.cli.sharing import groups_of, summary

    streams, asked = _asked(target)
    groups = groups_of(asked, streams)
    match form:
        case Form.JSON:
            typer.echo(
                json.dumps(
                    {"summary": summary(groups), "groups": _facts(groups)}, indent=2, ensure_ascii=False
                )
            )
        case Form.MERMAID:
            typer.echo(_mermaid(groups))
        case Form.TABLE:
            rows = [
                (g.stream, g.family, "  " * g.depth + g.shared, len(g.members), _named(g.names))
                for g in groups
            ]
            print_table(
                ("stream", "family", "shared", "asked by", "subscriptions"), rows, right=("asked by",)
            )
            for line in summary(groups):
                typer.echo(line)


Asked = tuple[dict[str, Stream], list[NewSubscription]]


def _asked(target: Path) -> Asked:
    if target.is_file() or target.suffix == ".toml":
        from anabranch.catalog.job import check_queries, load_job

        job = load_job(target)
        check_queries(job)
        return _of_job(job)
    _, catalog = opened(target)
    with catalog:
        return catalog.streams(), [_taken(entry) for entry in catalog.subscriptions()]


def _of_job(job: Job) -> Asked:
    """What would run: the file's subscriptions, and what people added or cancelled since it ran first."""
    from anabranch.catalog.job import declare
    from anabranch.catalog.sync import bound_all
    from anabranch.cli.schema import columns_of

    known: dict[str, Stream] = {}
    latest: dict[str, Entry] = {}
    layout = layout_for(job)
    if layout.catalog.exists():
        with Catalog.existing(layout.catalog) as catalog:
            known = catalog.streams()
            latest = {entry.name: entry for entry in catalog.subscriptions(state=None)}
    streams = {name: known.get(name) or declare(d, columns_of(d)) for name, d in job.streams.items()}
    ended = {name for name, entry in latest.items() if not entry.active}
    asked = [
        one for one in bound_all(job, streams) if one.name not in ended or latest[one.name].query != one.query
    ]
    names = {one.name for one in asked}
    added = [_taken(e) for e in latest.values() if e.active and e.name not in names and e.stream in streams]
    return streams, asked + added


def _taken(entry: Entry) -> NewSubscription:
    return NewSubscription(entry.name, entry.stream, entry.family, entry.kind, entry.query, entry.spec)


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _facts(groups: Sequence[Group]) -> list[dict[str, object]]:
    return [
        {
            "group": place,
            "stream": group.stream,
            "family": group.family,
            "shared": group.shared,
            "parent": group.parent,
            "subscriptions": [{"name": member.name, "kind": member.kind} for member in group.members],
        }
        for place, group in enumerate(groups)
    ]


def _mermaid(groups: Sequence[Group]) -> str:
    """Streams at the top, below them what is shared, and who asks for it."""
    lines = ["flowchart TD"]
    streams = {stream: place for place, stream in enumerate(dict.fromkeys(group.stream for group in groups))}
    lines += [f'  s{place}[("{_label(stream)}")]' for stream, place in streams.items()]
    for place, group in enumerate(groups):
        above = f"s{streams[group.stream]}" if group.parent is None else f"g{group.parent}"
        what = group.shared if group.family == "filters" else f"{group.family} {group.shared}"
        lines.append(f'  {above} --> g{place}["{_label(what)}"]')
        lines.append(f'  g{place} --- q{place}(["{_label(_named(group.names))}"])')
    return "\n".join(lines)


def _label(text: str) -> str:
    """Mermaid reads HTML's entities, written with # instead of &."""
    return "".join(f"#{ord(letter)};" if letter in '#&"<>' else letter for letter in text)
