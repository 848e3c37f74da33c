"""The operator of a stage, or of a whole chain that has one zone: one transformWithState, keyed by zone.

Spark starts a Python process of its own for every stateful operator, at the start of a query, only to ask for
the names of its state variables. So this module imports little, and the stages travel as bytes that only a
worker with rows unpacks: that process then takes 0.2 s instead of a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

if TYPE_CHECKING:
    import pandas as pd

    from anabranch.chain.stages import Stage
    from anabranch.spark.stages import StageRunner


class StageOperator(StatefulProcessor):
    """`query` names the running query (a restart has another name); `stages` are by their depth in the chain.

    State: `chunks`, a map from the names of chunks to their bytes, and `index`, which names the content of
    each (its token).
    """

    def __init__(
        self,
        query: str,
        family: str,
        stages: Mapping[int, Stage],
        partitions: int,
        parcels: str | None = None,
    ) -> None:
        from pyspark.cloudpickle import dumps

        self.query, self.family, self.partitions, self.parcels = query, family, partitions, parcels
        self.packed: bytes = dumps(stages)  # type: ignore[no-untyped-call]
        self.runner: StageRunner | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.index = handle.getValueState("index", "body string")
        self.chunks = handle.getMapState("chunks", "key string", "body binary")

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        if self.runner is None:
            from pickle import loads

            from anabranch.families.warm_up import ready
            from anabranch.spark.stages import StageRunner

            ready(self.family)
            stages = loads(self.packed)
            self.runner = StageRunner(
                self.query, stages, self.partitions, self.parcels, self.index, self.chunks
            )
        yield from self.runner.rows(rows)

    def close(self) -> None:
        pass
