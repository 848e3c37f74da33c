"""The process that Spark forks its Python workers from: it loads what they need once, so that each starts
warm.

Set as `spark.python.daemon.module`. It imports numpy, pyarrow, pandas and the kernels of the families that
have queries, and calls each kernel once, which takes a second or two; every forked worker inherits all that.
Nothing here may start a thread: a fork keeps only the thread that forks.

Spark has one such process for the stateful operators and one for functions over Arrow batches, which asks for
short tracebacks. That is as well: the workers that hold zones are then as few as there are cores, and the
others, which route and deliver, need no kernels.

Spark's workers collect garbage after every task. What is loaded here, and the thousands of queries that a
worker holds later, would be walked through each time, for a second a task with 10,000 of them: see Settler.
"""

from __future__ import annotations

import gc
import os
import time
from typing import Any

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


#: The families whose kernels workers will need, with commas between them.
FAMILIES = "ANABRANCH_FAMILIES"


def warm() -> None:
    import pandas  # noqa: F401
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401
    from pyspark.sql.streaming.proto import StateMessage_pb2  # noqa: F401

    import anabranch.spark.route
    import anabranch.spark.stages  # noqa: F401

    if "SPARK_SIMPLIFIED_TRACEBACK" not in os.environ:
        from anabranch.families.warm_up import is_warm, warm_up

        for family in filter(None, os.environ.get(FAMILIES, "").split(",")):
            if is_warm(family):  # others are being compiled; workers wait for them when they need them
                warm_up(family)


class Settler:
    """Takes what survived a slow collection out of the sight of the next ones (gc.freeze).

    A frozen object still dies with its last reference; only a cycle that became garbage stays. So once what
    was frozen since takes as long to walk through as all of it took the last time, the next collection walks
    through all of it again. Time is the measure because counting what is frozen takes as long.
    """

    SLOW_S = 0.01

    def __init__(self) -> None:
        self.began = self.whole_s = self.since_s = 0.0
        self.thawed = False

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self.began = time.perf_counter()
            return
        took = time.perf_counter() - self.began
        if info["generation"] < 2 or took < self.SLOW_S:
            return
        if self.thawed:
            self.whole_s, self.since_s, self.thawed = took, 0.0, False
        else:
            self.since_s += took
        gc.freeze()
        if self.since_s > self.whole_s:
            gc.unfreeze()
            self.thawed = True


if __name__ == "__main__":
    from pyspark.daemon import manager

    warm()
    gc.collect()
    gc.freeze()
    gc.callbacks.append(Settler())
    manager()
