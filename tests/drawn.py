"""How many cases hypothesis draws: all of them in `make test`, a few in `make quick`."""

from __future__ import annotations

import os

QUICK = os.environ.get("ANABRANCH_QUICK") == "1"


def examples(count: int) -> int:
    """`@settings(max_examples=examples(100))`"""
    return min(count, 5) if QUICK else count
