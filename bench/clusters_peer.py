"""The PyPI package dbscan on some windows: `python -m bench.clusters_peer WINDOWS ANSWERS [--threads N]`.

In: a npz file with the points of all windows one after the other, where each begins, ranges, counts. Out: a
npz file with label (-1 for noise) and core of each point, CPU and clock seconds of all windows together. A
process of its own, as threads are set up when the package is first used and stay.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from anabranch.model.arrays import Array


def measure(windows: dict[str, Array], threads: int | None) -> dict[str, Array]:
    """Runs the package in a process of its own; threads: None for as many as it takes by itself."""
    with tempfile.TemporaryDirectory() as folder:
        asked, answers = Path(folder) / "windows.npz", Path(folder) / "answers.npz"
        np.savez(asked, **windows)
        command = [sys.executable, "-m", "bench.clusters_peer", str(asked), str(answers)]
        more = [] if threads is None else ["--threads", str(threads)]
        subprocess.run([*command, *more], check=True, timeout=600)
        with np.load(answers) as found:
            return dict(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("windows", type=Path)
    parser.add_argument("answers", type=Path)
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    if given.threads is not None:
        os.environ["PARLAY_NUM_THREADS"] = str(given.threads)
    from dbscan import DBSCAN

    with np.load(given.windows) as file:
        points, after, ranges, counts = (file[name] for name in ("points", "after", "ranges", "counts"))
    DBSCAN(points[:1000].copy(), eps=0.01, min_samples=3)  # what is set up once is not part of it
    labels, cores = np.empty(len(points), np.int64), np.empty(len(points), np.bool_)
    cpu = clock = 0.0
    for window, (reach, count) in enumerate(zip(ranges.tolist(), counts.tolist(), strict=True)):
        low, high = after[window], after[window + 1]
        some = points[low:high].copy()
        before = time.process_time(), time.perf_counter()
        labels[low:high], cores[low:high] = DBSCAN(some, eps=reach, min_samples=count)
        cpu, clock = cpu + time.process_time() - before[0], clock + time.perf_counter() - before[1]
    np.savez(given.answers, labels=labels, cores=cores, cpu=cpu, clock=clock)


if __name__ == "__main__":
    main()
