"""What a query may ask for at most.

Queries come from anybody, and one absurd query must not stop the others. Each limit is checked when a query
is registered, before any work is done for it; `batch_work` and `item_work` are checked while it runs. The
operator sets them in `[limits]` of the job; they are kept with the streams, so that the engine, the service
and the command line have the same.

    QueryLimits(nearest_k=50)        # NEAREST 51 is refused
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from anabranch.model.errors import QueryError

#: The whole numbers that a query or a job can say: those of 64 bits.
INT64_LEAST, INT64_GREATEST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class QueryLimits:
    query_bytes: int = 65_536  # of the text, in UTF-8
    query_words: int = 2_500  # names, numbers, strings, signs and comments
    query_streams: int = 16  # `for` clauses over streams in a WXQuery
    conjunctions: int = 1_024  # alternatives of a condition in its normal form
    condition_steps: int = 25_000  # work to bring the conditions of a query into normal form
    nearest_k: int = 10_000
    cluster_count: int = 10_000  # neighbours of a core: MIN of CLUSTERS
    window_rows: int = 100_000_000  # ROWS of a window
    windows_per_item: int = 10_000  # size / step
    batch_work: int = 1_000_000  # windows, rows or pairs of one subscription in one batch (chain/budget.py)
    item_work: int = 100  # so many more for each item of the batch

    def to_json(self) -> dict[str, int]:
        return asdict(self)

    @staticmethod
    def from_json(given: dict[str, Any] | None) -> QueryLimits:
        """QueryLimits of older catalogs may lack some, and have their defaults."""
        return QueryLimits(**(given or {}))


DEFAULT_LIMITS = QueryLimits()


class LimitError(QueryError):
    """A query that asks for more than a limit allows. `limit` is the limit's name."""

    def __init__(self, what: str, limit: str, allowed: int, instead: str) -> None:
        super().__init__(
            f"{what} (limit: {allowed:,})", advice=f"{instead}, or raise {limit} in [limits] of the job"
        )
        self.limit = limit
