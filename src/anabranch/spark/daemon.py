"""The process that Spark forks its Python workers from: it loads what they need once, so that each starts
warm.

Set as `spark.python.daemon.module`. Importing numpy, pyarrow, pandas and our kernels and calling each kernel
once costs a second or two; every forked worker then inherits the compiled code. Nothing here may start a
thread: a fork keeps only the thread that forks.

Spark has one such process for the stateful operators and one for functions over Arrow batches, which asks for
short tracebacks. That is as well: the workers that hold zones are then as few as there are cores, and the
others, which route and deliver, need no kernels.
"""

from __future__ import annotations

import os

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def warm() -> None:
    import pandas  # noqa: F401
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401
    from pyspark.sql.streaming.proto import StateMessage_pb2  # noqa: F401

    import anabranch.spark.stages  # noqa: F401

    if "SPARK_SIMPLIFIED_TRACEBACK" not in os.environ:
        from anabranch.kernels.warm import warm as warm_kernels

        warm_kernels()


if __name__ == "__main__":
    from pyspark.daemon import manager

    warm()
    manager()
