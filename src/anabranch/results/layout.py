"""Where things live below a sink.

    out/
      results/<stream>/<table>/          results of all subscriptions, one table per kind
      dead_letters/<stream>/             rows that were late or rejected
      _anabranch/
        catalog.sqlite                   streams, subscriptions, the control log; if those are elsewhere:
        catalog.json                     the URL of the PostgreSQL database
        checkpoints/<branch>/            Spark's
        manifests/<branch>/              one per batch: which files belong to it
        control/<branch>/                queries that begin and end, for the next batch
        back/<branch>/                   back packets for the next batch
        parcels/<branch>/                large packets of the batch that runs
        unreadable/<branch>/             files of the source that became dead letters
        without/<branch>.json            subscriptions that a repeated batch leaves out
        failures/                        traces of what a job failed with
        lock                             locked by the job that runs

A branch is what one Spark query runs: `<stream>`, or `<stream>.<family>` for a family that is set apart.
A sink without a path (kafka) has the same below `<job>.anabranch`, beside the job's file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from anabranch.catalog.catalog_link import catalog_address
from anabranch.catalog.database import Address
from anabranch.model.errors import JobError
from anabranch.model.job import Job

HIDDEN = "_anabranch"


@dataclass(frozen=True)
class Layout:
    """The folder of a sink. `checkpoints` and `url` are where a job has Spark's checkpoints and its catalog,
    if not below the folder.
    """

    root: Path
    checkpoints: Path | None = None
    url: str | None = None

    @property
    def hidden(self) -> Path:
        return self.root / HIDDEN

    @property
    def catalog(self) -> Address:
        """Where the catalog is: as the job says or, without the job file, as the folder remembers."""
        return self.url or catalog_address(self.hidden)

    @property
    def lock(self) -> Path:
        return self.hidden / "lock"

    def checkpoint(self, branch: str) -> Path:
        return (self.checkpoints or self.hidden / "checkpoints") / branch

    def manifests(self, branch: str) -> Path:
        return self.hidden / "manifests" / branch

    def control(self, branch: str) -> Path:
        return self.hidden / "control" / branch

    def back(self, branch: str) -> Path:
        return self.hidden / "back" / branch

    def without(self, branch: str) -> Path:
        return self.hidden / "without" / f"{branch}.json"

    @property
    def failures(self) -> Path:
        return self.hidden / "failures"

    def unreadable(self, branch: str) -> Path:
        return self.hidden / "unreadable" / branch

    def parcels(self, branch: str) -> Path:
        return self.hidden / "parcels" / branch

    def results(self, stream: str, table: str) -> Path:
        return self.root / "results" / stream / table

    def dead_letters(self, stream: str) -> Path:
        return self.root / "dead_letters" / stream

    def branch(self, stream: str, family: str) -> str:
        """Returns the branch of a stream that has the results of a family. Names of streams have no dots."""
        apart = f"{stream}.{family}"
        return apart if self.manifests(apart).is_dir() else stream

    def branches(self, stream: str) -> tuple[str, ...]:
        """Returns the branches of a stream that have delivered something."""
        apart = sorted(path.name for path in (self.hidden / "manifests").glob(f"{stream}.*"))
        return tuple(name for name in (stream, *apart) if self.manifests(name).is_dir())


def layout_for(job: Job) -> Layout:
    """Returns the layout of a job."""
    root = job.sink.path or job.path.with_name(f"{job.path.stem}.anabranch")
    return Layout(root, job.engine.checkpoint, job.engine.catalog)


def layout_of(target: Path | str) -> Layout:
    """Returns the layout of a job, given its file or the folder of its sink."""
    target = Path(target).absolute()
    if target.is_dir():
        if (target / HIDDEN).is_dir():
            return Layout(target)
        jobs = sorted(path.name for path in target.glob("*.toml"))
        hint = f"; did you mean {target / jobs[0]}?" if jobs else ""
        raise JobError(f"{target} is not the folder of a job's sink, or the job has not run yet{hint}")
    if not target.exists() and target.suffix != ".toml":
        raise JobError(
            f"there is no {target}; give a job.toml, or the folder of its sink once the job has run"
        )
    from anabranch.job.job_file import load_job  # here: a command that is given the folder starts without it

    return layout_for(load_job(target))
