"""A branch: the families of a stream that one Spark query runs.

All families of a stream share one reading of it. A family that a job sets apart (`apart = ["clusters"]`) has
a Spark query of its own, which reads the stream on its own: it can be slow without delaying the others.

    photons                 filters, nearest, moving
    photons.clusters        clusters
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Branch:
    stream: str
    families: tuple[str, ...]
    apart: str = ""  # the family, if it is set apart

    @property
    def name(self) -> str:
        return branch_name(self.stream, self.apart, (self.apart,) if self.apart else ())

    @property
    def logged(self) -> tuple[str, ...]:
        """The families under which the control log has its entries; the end of the stream has its own."""
        return self.families if self.apart else ("", *self.families)


def branch_name(stream: str, family: str, apart: Sequence[str]) -> str:
    """Returns the name of the branch that runs a family."""
    return f"{stream}.{family}" if family in apart else stream


def branches_of(stream: str, families: Sequence[str], apart: Sequence[str]) -> list[Branch]:
    """Returns the branches of a stream."""
    shared = Branch(stream, tuple(family for family in families if family not in apart))
    return [shared, *(Branch(stream, (family,), family) for family in apart)]
