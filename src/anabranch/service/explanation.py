"""The plan of a job, explained: its streams and queries, from its file or from its sink.

explanation_of(Path("job.toml"), columns_of)     # what would run
explanation_of(Path("out"), columns_of)          # what runs, from the catalog
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.database import exists
from anabranch.catalog.entries import Entry
from anabranch.catalog.registration import bind_job, check_queries
from anabranch.job.declarations import declare
from anabranch.job.job_file import load_job
from anabranch.job.source_files import sample_of
from anabranch.model.columns import Column
from anabranch.model.job import Job, StreamDeclaration
from anabranch.model.stream import Stream
from anabranch.planning.explain import Explanation, Measured, Sample, explained
from anabranch.planning.sharing_groups import PlannedQuery
from anabranch.results.layout import Layout, layout_for, layout_of
from anabranch.results.manifests import Manifests

#: Returns the columns of a source.
ColumnsOf = Callable[[StreamDeclaration], tuple[Column, ...]]


@dataclass(frozen=True)
class JobQueries:
    """The streams of a job, as they are and as they were declared, and the queries on them."""

    streams: dict[str, Stream]
    declarations: Mapping[str, StreamDeclaration]
    queries: list[PlannedQuery]


def explanation_of(target: Path, columns_of: ColumnsOf) -> Explanation:
    """`target` is a job.toml or the folder of its sink; `columns_of` is asked where a job has not run."""
    if target.is_file() or target.suffix == ".toml":
        job = load_job(target)
        check_queries(job)
        found, layout = job_queries(job, columns_of), layout_for(job)
    else:
        layout = layout_of(target)
        with Catalog.existing(layout.catalog) as catalog:
            found = catalog_queries(catalog)
    explanation = explained(found.queries, found.streams, samples_of(found.streams, found.declarations))
    return with_measures(explanation, layout, found.streams)


def with_measures(explanation: Explanation, layout: Layout, streams: Iterable[str]) -> Explanation:
    """Returns the explanation with what a job that has run measured, and which messages it sent."""
    manifests = Manifests(layout)
    summary, measured = list(explanation.summary), []
    for name in streams:
        batches, work = manifests.work(name)
        measured += [Measured(name, *stage, *numbers) for stage, numbers in work.items()]
        if work:
            summary.append(f"{name}: rows, bytes and CPU of stages were measured over {batches:,} batches")
    return replace(explanation, summary=summary, measured=measured, messages=messages_of(layout, streams))


def messages_of(layout: Layout, streams: Iterable[str]) -> dict[str, dict[str, dict[str, int]]]:
    """Returns what the streams of a job that has run have sent, by stream, family and name of message."""
    manifests = Manifests(layout)
    found = {name: manifests.messages(name) for name in streams}
    return {name: families for name, families in found.items() if families}


def samples_of(
    streams: Mapping[str, Stream], declarations: Mapping[str, StreamDeclaration]
) -> dict[str, Sample]:
    """Returns a few thousand items of each stream, where they can be read without Spark."""
    return {name: sample_of(declarations.get(name), stream) for name, stream in streams.items()}


def catalog_queries(catalog: Catalog) -> JobQueries:
    streams = catalog.streams()
    declarations = {name: catalog.declaration(name) for name in streams}
    # two may have one name, where one of them is a part; labels differ
    return JobQueries(streams, declarations, [replace(e, name=e.label) for e in catalog.subscriptions()])


def job_queries(job: Job, columns_of: ColumnsOf) -> JobQueries:
    """Returns what would run: the file's subscriptions, with what was added or cancelled since it ran."""
    known: dict[str, Stream] = {}
    latest: dict[str, Entry] = {}
    further: list[Entry] = []  # parts
    layout = layout_for(job)
    if exists(layout.catalog):
        with Catalog.existing(layout.catalog) as catalog:
            known = catalog.streams()
            entries = catalog.subscriptions(state=None)
            latest = {entry.name: entry for entry in entries if entry.part_of is None}
            further = [entry for entry in entries if entry.active and entry.part_of is not None]
    streams = {
        name: replace(known[name], operators=one.operators, limits=one.limits)
        if name in known
        else declare(one, columns_of(one))
        for name, one in job.streams.items()
    }
    cancelled = {name: entry.query for name, entry in latest.items() if not entry.active}
    queries: list[PlannedQuery] = [
        one for one in bind_job(job, streams) if cancelled.get(one.name) != one.query
    ]
    names = {one.name for one in queries}
    others = [e for e in latest.values() if e.active and e.name not in names]
    numbers = {e.number for e in others}
    others += [e for e in further if e.part_of in numbers]
    queries += [e for e in others if e.stream in streams]
    return JobQueries(streams, job.streams, queries)
