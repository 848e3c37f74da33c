"""CPU and time of a command with all the processes that it starts, also those that outlive their parent."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Spent:
    """Seconds of CPU of all processes, and seconds by the clock until the command itself ended."""

    cpu_s: float
    clock_s: float


def spent(
    command: Sequence[str], cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> Spent:
    """Runs a command to its end. Processes that it leaves behind become children of this one, so that their
    CPU is counted once they have ended.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before, began = _children_s(), time.monotonic()
    ran = subprocess.run(
        command, cwd=cwd, env={**os.environ, **(environment or {})}, capture_output=True, text=True
    )
    clock_s = time.monotonic() - began
    if ran.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{ran.stderr[-4000:]}")
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return Spent(_children_s() - before, clock_s)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
