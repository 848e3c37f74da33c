"""How a branch is divided on Spark: into zones and shuffle partitions, and which checkpoint has its state.

Where a zone's state is depends on both numbers. So a branch keeps those that it started with, on a larger
machine too, until somebody rescales it (rescale.py). It then goes on in another checkpoint, whose batches
Spark counts from 0 again:

    checkpoint     photons     batches 0, 1, 2        of the branch: 0, 1, 2
    checkpoint     photons@1   batches 0, 1, 2, ...   of the branch: 2, 3, 4, ...    first_batch = 2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from pyspark.sql import SparkSession

from anabranch.catalog.catalog import Catalog
from anabranch.model.errors import JobError
from anabranch.model.job import EngineSettings
from anabranch.spark.session import few_partitions

#: With fewer cores one zone is faster than one per core: all stages are then one operator.
MANY_CORES = 4


@dataclass(frozen=True)
class BranchDivision:
    """`rescaled` is how often the numbers have changed, `first_batch` the number that Spark's batch 0 has in
    the branch, `moved` the files with the states that the zones begin with. `kept` are the numbers of zones
    of families that kept theirs.
    """

    zones: int
    shuffle_partitions: int
    rescaled: int = 0
    first_batch: int = 0
    moved: tuple[str, ...] = ()
    kept: Mapping[str, int] = field(default_factory=dict)

    def checkpoint(self, branch: str) -> str:
        """Returns the name of the branch's checkpoint."""
        return f"{branch}@{self.rescaled}" if self.rescaled else branch


def _key(branch: str) -> str:
    return f"parts of {branch}"


def known_division(catalog: Catalog, branch: str) -> BranchDivision | None:
    """Returns how a branch is divided, None if it has not started yet."""
    stored = catalog.meta(_key(branch))
    return None if stored is None else BranchDivision(**stored | {"moved": tuple(stored.get("moved", ()))})


def save_division(catalog: Catalog, branch: str, division: BranchDivision) -> None:
    catalog.set_meta(_key(branch), asdict(division))


def division_of(
    catalog: Catalog, branch: str, settings: EngineSettings, spark: SparkSession
) -> BranchDivision:
    """Returns how a branch is divided; the first call decides it."""
    known = known_division(catalog, branch)
    if known is None:
        known = new_division(settings.zones, settings.shuffle_partitions, spark)
        save_division(catalog, branch, known)
    if known.rescaled:
        return known  # what was said last holds
    for name in ("zones", "shuffle_partitions"):
        wanted, first = getattr(settings, name), getattr(known, name)
        if wanted not in (None, first):
            raise JobError(
                f"[engine] {name} = {wanted}, but this job was started with {first}, and its state is "
                "divided that way: leave it out, use `anabranch rescale`, or take another sink path"
            )
    return known


def new_division(zones: int | None, partitions: int | None, spark: SparkSession) -> BranchDivision:
    """Returns a division with these numbers; what is not given follows from the session's cores."""
    few = few_partitions(spark)
    if few < MANY_CORES and zones is None:
        few = 1
    count = partitions or min(few, zones or few)
    return BranchDivision(zones or count, count)
