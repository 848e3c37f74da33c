"""The operator of some depths of all chains of a branch: one transformWithState, keyed by zone.

Spark starts a Python process of its own for every stateful operator, at the start of a query, only to ask for
the names of its state variables. So this module imports little, and the chains travel as bytes that only a
worker with rows unpacks: that process then takes 0.2 s instead of a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

if TYPE_CHECKING:
    import pandas as pd

    from anabranch.chain.stages import Chains
    from anabranch.spark.stages import StageRunner


@dataclass(frozen=True)
class Run:
    """A run of a branch: what all its operators and tasks have in common.

    `query` names the running query (a restart has another name), `root` is the folder of the sink, `parcels`
    that of large packets. `first_batch` and `moved` are those of its division (division.py).
    """

    query: str
    root: str
    branch: str
    partitions: int
    parcels: str
    first_batch: int = 0
    moved: tuple[str, ...] = ()


class StageOperator(StatefulProcessor):
    """State: `chunks`, a map from the names of chunks to their bytes, and `index`, which names the content of
    each (its token).
    """

    def __init__(self, run: Run, chains: Chains, depths: Sequence[int]) -> None:
        from pyspark.cloudpickle import dumps

        self.run, self.depths = run, tuple(depths)
        self.packed: bytes = dumps(chains)  # type: ignore[no-untyped-call]
        self.runner: StageRunner | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.index = handle.getValueState("index", "body string")
        self.chunks = handle.getMapState("chunks", "key string", "body binary")

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        if self.runner is None:
            from pickle import loads

            from anabranch.spark.back import back_packets
            from anabranch.spark.stages import StageRunner

            run = self.run
            self.runner = StageRunner(
                run.query,
                loads(self.packed),
                self.depths,
                run.partitions,
                run.parcels,
                self.index,
                self.chunks,
                lambda: back_packets(run),
            )
        yield from self.runner.rows(int(key[0]), rows)

    def close(self) -> None:
        pass
