"""What this process's Spark uses: the memory of its Python workers (private pages only, for they are forked
from one daemon), and the CPU time of all processes.
"""

from __future__ import annotations

import os
from pathlib import Path


def worker_bytes() -> int:
    """Private bytes of all Python descendants of this process."""
    mine = os.getpid()
    return sum(_private(pid) for pid in _family() if pid != mine and "python" in _program(pid))


def cpu_seconds() -> float:
    """CPU time of this process and all its descendants, also of those that have ended."""
    ticks = sum(sum(map(int, _stat(pid)[11:15])) for pid in _family())
    return ticks / os.sysconf("SC_CLK_TCK")


def _family() -> list[int]:
    """This process and its descendants."""
    parents, mine, found = _parents(), os.getpid(), []
    for pid in parents:
        ancestor = pid
        while ancestor in parents and ancestor != mine:
            ancestor = parents[ancestor]
        if ancestor == mine:
            found.append(pid)
    return found


def _parents() -> dict[int, int]:
    out = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            stat = _stat(int(entry.name))
            if stat:
                out[int(entry.name)] = int(stat[1])
    return out


def _stat(pid: int) -> list[str]:
    """The fields of a process behind its name, from its state on; none if it has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return []


def _program(pid: int) -> str:
    """What the process runs; the arguments of Java name Python, too."""
    try:
        return Path(Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]).name
    except OSError:
        return ""


def _private(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))
