"""`anabranch explain`: who shares what with whom, and what it costs.

In: a job, or what it left in its sink. Out: a table, JSON, or a diagram for mermaid. Never: more of the
stream than a sample of its files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.database import exists
from anabranch.catalog.entries import Entry, NewSubscription
from anabranch.catalog.layout import layout_for
from anabranch.cli.common import Target, opened, print_table
from anabranch.model.job import Job, StreamDeclaration
from anabranch.model.stream import Stream

if TYPE_CHECKING:
    from anabranch.cli.costs import Costs, GroupCost
    from anabranch.cli.sharing import Group
    from anabranch.sharing.statistics import Statistics

#: So many names of a group are shown in a table.
MOST_NAMED = 8
UNKNOWN = "-"
#: And so many subscriptions, those that would cost most alone.
MOST_LISTED = 20


class Form(StrEnum):
    TABLE = "table"
    JSON = "json"
    MERMAID = "mermaid"


def explain(
    target: Target,
    form: Annotated[Form, typer.Option("--format", help="How to show it.")] = Form.TABLE,
) -> None:
    """Show who shares what with whom, and what it costs: rows, bytes and CPU for 1,000 items.

    Example: anabranch explain job.toml --format mermaid
    """
    groups, costs, said = _computed(target)
    match form:
        case Form.JSON:
            typer.echo(json.dumps(_plan(groups, costs, said), indent=2, ensure_ascii=False))
        case Form.MERMAID:
            typer.echo(_mermaid(groups, costs))
        case Form.TABLE:
            rows = [
                (
                    g.stream,
                    g.family,
                    "  " * g.depth + g.shared,
                    *_numbers(cost),
                    len(g.members),
                    _named(g.names),
                )
                for g, cost in zip(groups, costs.groups, strict=True)
            ]
            numbers = ("rows", "bytes", "CPU us", "asked by")
            print_table(("stream", "family", "shared", *numbers, "subscriptions"), rows, right=numbers)
            _print_subscriptions(costs)
            for line in said:
                typer.echo(line)


def plan_of(target: Path) -> dict[str, Any]:
    """What --format json prints; the service shows the same."""
    return _plan(*_computed(target))


def _computed(target: Path) -> tuple[list[Group], Costs, list[str]]:
    from anabranch.cli.costs import costs_of
    from anabranch.cli.costs import summary as saved
    from anabranch.cli.sharing import groups_of, summary

    streams, declared, asked = _asked(target)
    groups = groups_of(asked, streams)
    statistics, basis = statistics_of(streams, declared)
    costs = costs_of(groups, streams, statistics)
    return groups, costs, [*summary(groups), *saved(costs), *basis]


def _plan(groups: Sequence[Group], costs: Costs, said: list[str]) -> dict[str, Any]:
    return {
        "summary": said,
        "groups": _facts(groups, costs),
        "subscriptions": [
            {"name": name, "cpu_alone_us": alone, "cpu_shared_us": costs.shared[name]}
            for name, alone in costs.alone.items()
        ],
    }


def _print_subscriptions(costs: Costs) -> None:
    dearest = sorted(costs.alone, key=lambda name: -costs.alone[name])[:MOST_LISTED]
    if not dearest:
        return
    typer.echo()
    title = ("subscription", "CPU us alone", "CPU us shared")
    rows = [(name, f"{costs.alone[name]:,.1f}", f"{costs.shared[name]:,.1f}") for name in dearest]
    print_table(title, rows, right=title[1:])
    if len(costs.alone) > len(dearest):
        typer.echo(f"... and {len(costs.alone) - len(dearest):,} that cost less; --format json lists all")
    typer.echo()


def _numbers(cost: GroupCost) -> tuple[str, ...]:
    return tuple(UNKNOWN if one is None else f"{one:,.0f}" for one in (cost.rows, cost.bytes, cost.cpu))


Declared = dict[str, StreamDeclaration]
Asked = tuple[dict[str, Stream], Declared, list[NewSubscription]]


def statistics_of(
    streams: Mapping[str, Stream], declared: Mapping[str, StreamDeclaration]
) -> tuple[dict[str, Statistics], list[str]]:
    """Of a sample of each source, as if 1,000 items came a second; and what that rests on."""
    from anabranch.cli.costs import ITEMS
    from anabranch.cli.sample import sample_of
    from anabranch.sharing.statistics import Statistics

    found, said = {}, []
    for name, stream in streams.items():
        known = found[name] = Statistics(stream)
        rows, where = sample_of(declared.get(name), stream)
        if rows is None:
            known.rate = ITEMS
            said.append(f"{name}: costs rest on defaults (a range lets a third of the items pass): {where}")
        else:
            known.observe(rows, rows.num_rows / ITEMS)
            said.append(f"{name}: costs rest on {where}")
    return found, said


def _asked(target: Path) -> Asked:
    if target.is_file() or target.suffix == ".toml":
        from anabranch.catalog.job import check_queries, load_job

        job = load_job(target)
        check_queries(job)
        return _of_job(job)
    _, catalog = opened(target)
    with catalog:
        streams = catalog.streams()
        declared = {name: catalog.declaration(name) for name in streams}
        return streams, declared, [_taken(entry) for entry in catalog.subscriptions()]


def _of_job(job: Job) -> Asked:
    """What would run: the file's subscriptions, and what people added or cancelled since it ran first."""
    from anabranch.catalog.job import declare
    from anabranch.catalog.sync import bound_all
    from anabranch.cli.schema import columns_of

    known: dict[str, Stream] = {}
    latest: dict[str, Entry] = {}
    layout = layout_for(job)
    if exists(layout.catalog):
        with Catalog.existing(layout.catalog) as catalog:
            known = catalog.streams()
            latest = {entry.name: entry for entry in catalog.subscriptions(state=None)}
    streams = {
        name: replace(known[name], operators=d.operators) if name in known else declare(d, columns_of(d))
        for name, d in job.streams.items()
    }
    ended = {name for name, entry in latest.items() if not entry.active}
    asked = [
        one for one in bound_all(job, streams) if one.name not in ended or latest[one.name].query != one.query
    ]
    names = {one.name for one in asked}
    added = [_taken(e) for e in latest.values() if e.active and e.name not in names and e.stream in streams]
    return streams, dict(job.streams), asked + added


def _taken(entry: Entry) -> NewSubscription:
    return NewSubscription(entry.name, entry.stream, entry.family, entry.kind, entry.query, entry.spec)


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _facts(groups: Sequence[Group], costs: Costs) -> list[dict[str, object]]:
    return [
        {
            "group": place,
            "stream": group.stream,
            "family": group.family,
            "shared": group.shared,
            "parent": group.parent,
            "rows": cost.rows,
            "bytes": cost.bytes,
            "cpu_us": cost.cpu,
            "subscriptions": [{"name": member.name, "kind": member.kind} for member in group.members],
        }
        for place, (group, cost) in enumerate(zip(groups, costs.groups, strict=True))
    ]


def _mermaid(groups: Sequence[Group], costs: Costs) -> str:
    """Streams at the top, below them what is shared, and who asks for it."""
    lines = ["flowchart TD"]
    streams = {stream: place for place, stream in enumerate(dict.fromkeys(group.stream for group in groups))}
    lines += [f'  s{place}[("{_label(stream)}")]' for stream, place in streams.items()]
    for place, group in enumerate(groups):
        above = f"s{streams[group.stream]}" if group.parent is None else f"g{group.parent}"
        what = group.shared if group.family == "filters" else f"{group.family} {group.shared}"
        rows, size, cpu = _numbers(costs.groups[place])
        cost = f"{rows} rows" if cpu == UNKNOWN else f"{rows} rows, {size} bytes, {cpu} us"
        lines.append(f'  {above} --> g{place}["{_label(what)}<br/>{cost}"]')
        lines.append(f'  g{place} --- q{place}(["{_label(_named(group.names))}"])')
    return "\n".join(lines)


def _label(text: str) -> str:
    """Mermaid reads HTML's entities, written with # instead of &."""
    return "".join(f"#{ord(letter)};" if letter in '#&"<>' else letter for letter in text)
