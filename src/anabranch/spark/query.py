"""A branch of a stream as a Structured Streaming query: source and control, order, the stages of all its
families, deliver.

    source --> route --+
                       +--> order --> depth 1 --> depth 2 --> depth 3 --> deliver
    control files -----+

With one zone all depths are one operator.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.chain.stages import MOST_DEPTHS, Chains
from anabranch.families.registry import family as family_of
from anabranch.model.branch import Branch
from anabranch.model.stream import Stream
from anabranch.results.manifests import Manifest, Manifests
from anabranch.spark.control import ControlFiles, control_rows
from anabranch.spark.deliver import Destination, deliver
from anabranch.spark.division import BranchDivision
from anabranch.spark.operator import Run, StageOperator
from anabranch.spark.rows import DDL, clear_parcels
from anabranch.spark.session import shuffled


def chains_of(stream: Stream, branch: Branch, division: BranchDivision) -> Chains:
    """Returns the chains of the families of a branch."""
    families = [family_of(name) for name in branch.families]
    return Chains(stream, families, division.zones, division.kept)


def through_stages(packets: DataFrame, run: Run, chains: Chains) -> DataFrame:
    """Returns what the stages of all depths make of packets."""
    depths = range(MOST_DEPTHS + 1)
    for some in [depths] if chains.zones == 1 else [[depth] for depth in depths]:
        operator = StageOperator(run, chains, some)
        packets = packets.groupBy(F.col("key")).transformWithStateInPandas(operator, DDL, "Append", "None")
    return packets


class BranchQuery:
    """A branch that runs; its checkpoint decides where it goes on. `source` gives the packets of the stream,
    for so many partitions and a folder of parcels.
    """

    def __init__(
        self,
        spark: SparkSession,
        source: Callable[[int, str], DataFrame],
        chains: Chains,
        to: Destination,
        control: ControlFiles,
        division: BranchDivision,
        trigger_s: float = 0.0,
        after: Callable[[Manifest], None] = lambda manifest: None,
    ) -> None:
        self.branch, self.control, self._after = to.branch, control, after
        self.division = division
        manifests = Manifests(to.layout)
        self._last = manifests.manifest(self.branch.name, manifests.latest(self.branch.name))
        control.write()  # before the first batch, which then has all that is known
        self.query = self._start(spark, source, chains, to, trigger_s)

    def _start(
        self,
        spark: SparkSession,
        source: Callable[[int, str], DataFrame],
        chains: Chains,
        to: Destination,
        trigger_s: float,
    ) -> StreamingQuery:
        name, layout, division = self.branch.name, to.layout, self.division
        parcels = layout.parcels(name).absolute()
        clear_parcels(parcels)
        run = Run(
            uuid.uuid4().hex,
            str(layout.root.absolute()),
            name,
            division.shuffle_partitions,
            str(parcels),
            division.first_batch,
            division.moved,
        )
        packets = source(run.partitions, run.parcels).unionAll(
            control_rows(spark, self.control.folder, run.partitions)
        )
        writer = (
            through_stages(packets, run, chains)
            .writeStream.queryName(f"{name}.{run.query[:8]}")
            .option("checkpointLocation", str(layout.checkpoint(division.checkpoint(name))))
            .foreachBatch(deliver(to, self._delivered))
        )
        with shuffled(spark, run.partitions):
            return writer.trigger(processingTime=f"{trigger_s} seconds").start()

    def _delivered(self, manifest: Manifest) -> None:
        self._last = manifest
        self._after(manifest)

    def tend(self) -> None:
        """Passes on what is new in the control log, and wakes the query if only back packets wait."""
        self.control.write()
        last = self._last
        if last is not None and last.back and self.query.isActive:
            status = self.query.status
            if not (status["isTriggerActive"] or status["isDataAvailable"]) and last is self._last:
                self.control.wake(last.batch)

    def drain(self) -> None:
        """Waits until everything that is there has been processed, back packets included."""
        while True:
            self.control.write()
            self.query.processAllAvailable()
            last = self._last
            if last is None or not last.back:
                return
            self.control.wake(last.batch)
