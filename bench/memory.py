"""How much memory the Python workers of this process's Spark use: private pages only, for they are forked
from one daemon.
"""

from __future__ import annotations

import os
from pathlib import Path


def worker_bytes() -> int:
    """Private bytes of all Python descendants of this process."""
    parents = _parents()
    mine, total = os.getpid(), 0
    for pid in parents:
        ancestor = pid
        while ancestor in parents and ancestor != mine:
            ancestor = parents[ancestor]
        if ancestor == mine and pid != mine and "python" in _command(pid):
            total += _private(pid)
    return total


def _parents() -> dict[int, int]:
    out = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            out[int(entry.name)] = int(stat.rsplit(")", 1)[1].split()[1])
    return out


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def _private(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))
