"""Where things live below a sink.

    out/
      results/<stream>/<table>/          what was found
      dead_letters/<stream>/             what was late or rejected
      _anabranch/
        catalog.sqlite                   streams, subscriptions, the control log; if those are elsewhere:
        catalog.json                     the URL of the PostgreSQL database
        checkpoints/<stream>.<family>/   Spark's
        manifests/<stream>.<family>/     one a batch: which files count
        back/<stream>.<family>/          back packets for the next batch
        parcels/<stream>.<family>/       large packets of the batch that runs
        lock                             held by the job that runs

A sink without a path (kafka) has the same below `<job>.anabranch`, beside the job's file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from anabranch.catalog.bond import SQLITE, read_bond
from anabranch.catalog.database import Address
from anabranch.catalog.job import load_job
from anabranch.model.errors import JobError
from anabranch.model.job import Job

HIDDEN = "_anabranch"


@dataclass(frozen=True)
class Layout:
    """`checkpoints` is where a job wants Spark's checkpoints, `url` where it wants its catalog, if not
    here.
    """

    root: Path
    checkpoints: Path | None = None
    url: str | None = None

    @property
    def hidden(self) -> Path:
        return self.root / HIDDEN

    @property
    def catalog(self) -> Address:
        """Where the catalog is: as the job says or, for who has only the folder, as the sink remembers."""
        return self.url or (bond.url if (bond := read_bond(self.hidden)) else self.hidden / SQLITE)

    @property
    def lock(self) -> Path:
        return self.hidden / "lock"

    def checkpoint(self, stream: str, family: str) -> Path:
        return (self.checkpoints or self.hidden / "checkpoints") / f"{stream}.{family}"

    def manifests(self, stream: str, family: str) -> Path:
        return self.hidden / "manifests" / f"{stream}.{family}"

    def back(self, stream: str, family: str) -> Path:
        return self.hidden / "back" / f"{stream}.{family}"

    def parcels(self, stream: str, family: str) -> Path:
        return self.hidden / "parcels" / f"{stream}.{family}"

    def results(self, stream: str, table: str) -> Path:
        return self.root / "results" / stream / table

    def dead_letters(self, stream: str) -> Path:
        return self.root / "dead_letters" / stream

    def families(self, stream: str) -> tuple[str, ...]:
        """The families of a stream that have delivered something. Names of streams have no dots."""
        return tuple(sorted(path.suffix[1:] for path in (self.hidden / "manifests").glob(f"{stream}.*")))


def layout_for(job: Job) -> Layout:
    root = job.sink.path or job.path.with_name(f"{job.path.stem}.anabranch")
    return Layout(root, job.engine.checkpoint, job.engine.catalog)


def layout_of(target: Path | str) -> Layout:
    """The layout that a command is about: that of a job file, or of the folder of a sink."""
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
    return layout_for(load_job(target))
