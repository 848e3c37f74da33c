"""Counts the work of normalising conditions, so that none of them can take long.

A step takes about a microsecond. Steps are counted, not measured, so that a query is refused everywhere or
nowhere; and they are counted before they are done.

    work = Work(QueryLimits())
    normal_form(term, stream, work)         # LimitError once it would take more than limits.condition_steps
"""

from __future__ import annotations

from anabranch.model.limits import LimitError, QueryLimits

_INSTEAD = "use fewer ORs inside ANDs and fewer comparisons of columns, or split the query"


class Work:
    """What may still be spent on the conditions of one query; without limits, anything."""

    def __init__(self, limits: QueryLimits | None = None) -> None:
        self.limits = limits
        self.left = None if limits is None else limits.condition_steps

    def spend(self, steps: int) -> None:
        if self.left is None or self.limits is None:
            return
        self.left -= steps
        if self.left < 0:
            raise LimitError(
                "the conditions take too many steps to compare and simplify",
                "condition_steps",
                self.limits.condition_steps,
                _INSTEAD,
            )

    def check_alternatives(self, alternatives: int, tried: int = 1) -> None:
        """Refuses more than the limit; `tried` times as many where some may turn out to exclude each
        other.
        """
        if self.limits is not None and alternatives > tried * self.limits.conjunctions:
            raise LimitError(
                f"the condition unfolds into {alternatives:,} alternatives",
                "conjunctions",
                self.limits.conjunctions,
                _INSTEAD,
            )
