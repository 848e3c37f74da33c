"""How long the kernels take to compile from nothing, and to load once they are on disk.

    python -m bench.cold

Each family is compiled by a process of its own, with an empty folder of compiled kernels, and loaded by a
second one. Out: CPU seconds per family and in all; all together must compile within 90.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from anabranch.families.warm_up import REHEARSALS
from bench.harness import Report

LIMIT_S = 90.0


def cpu_seconds(family: str, cache: str) -> float:
    """CPU seconds of a process that calls every kernel of a family, the start of Python not counted."""

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def run(code: str) -> float:
        before = spent()
        subprocess.run([sys.executable, "-c", code], env=os.environ | {"NUMBA_CACHE_DIR": cache}, check=True)
        return spent() - before

    whole = run(f"from anabranch.families.warm_up import warm_up; warm_up({family!r})")
    return whole - run("import anabranch.families.warm_up, numba")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures how long kernels take to compile from nothing.")
    parser.add_argument("--out", type=Path, help="where to write the figures as JSON")
    options = parser.parse_args()
    report = Report("kernels")
    total = 0.0
    for family in REHEARSALS:
        with tempfile.TemporaryDirectory() as cache:
            compiled, loaded = cpu_seconds(family, cache), cpu_seconds(family, cache)
        report.figure(f"{family}: CPU seconds to compile", compiled)
        report.figure(f"{family}: CPU seconds to load", loaded)
        total += compiled
    report.ratio("CPU seconds to compile all kernels", total, at_most=LIMIT_S)
    report.show(options.out)


if __name__ == "__main__":
    main()
