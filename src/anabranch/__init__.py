"""Thousands of standing queries, one Spark stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.spark.engine import Engine

__version__ = "0.1.0"
__all__ = ["Engine", "__version__"]


def __getattr__(name: str) -> Any:
    """`anabranch.Engine` brings Spark in only when it is asked for; the rest of the package works without a
    JVM.
    """
    if name == "Engine":
        from anabranch.spark.engine import Engine

        return Engine
    raise AttributeError(f"module 'anabranch' has no attribute {name!r}")
