"""The predicate graph of a conjunction (StreamGlobe 4.4.3, after Rosenkrantz and Hunt).

In: edges `(x, y): weight`, which say x <= y + weight, or x < y + weight. One node is the constant ZERO, so
`x <= 5` is the edge (x, ZERO) with weight 5, and `x >= 5` is (ZERO, x) with weight -5.
Out: whether all edges can hold at once, all that follows from them, and a set of edges that says the same and
from which none can be left out.
Never: a column's type or a rounding; weights are ints or Fractions, and sums are exact.

    x <= y + 2, y <= 3          closure adds x <= 5          minimal keeps the two
    x <= y, y <= x - 1          a cycle of weight -1: not satisfiable
    x <= y, y < x               a cycle of weight 0 with a strict edge: not satisfiable
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from anabranch.predicates.work import Work

ZERO = ""  # no column is called this

#: (value, loose): loose is 0 for `<` and 1 for `<=`, so that the smaller of two weights is the stronger one.
Weight = tuple[int | Fraction, int]
Edges = Mapping[tuple[str, str], Weight]

_SELF: Weight = (0, 1)  # x <= x


def plus(first: Weight, second: Weight) -> Weight:
    """x <= y + a and y < z + b give x < z + (a + b)."""
    return first[0] + second[0], min(first[1], second[1])


def closure(edges: Edges, work: Work | None = None) -> dict[tuple[str, str], Weight] | None:
    """The strongest edge between any two connected nodes, or None if the edges contradict each other."""
    work = work or Work()
    nodes = _nodes(edges)
    out: dict[str, dict[str, Weight]] = {node: {node: _SELF} for node in nodes}
    into: dict[str, set[str]] = {node: {node} for node in nodes}
    for (x, y), weight in edges.items():
        out[x][y] = min(weight, out[x].get(y, weight))
        into[y].add(x)
    for middle in nodes:
        work.spend(1 + len(into[middle]) * len(out[middle]) // 2)
        further = list(out[middle].items())
        for x in list(into[middle]):
            to_middle, known = out[x][middle], out[x]
            for y, from_middle in further:
                path = plus(to_middle, from_middle)
                if y not in known or path < known[y]:
                    known[y] = path
                    into[y].add(x)
    if any(out[node][node] < _SELF for node in nodes):
        return None
    return {(x, y): weight for x, known in out.items() for y, weight in known.items()}


def satisfiable(edges: Edges) -> bool:
    return closure(edges) is not None


def minimal(closed: Edges, work: Work | None = None) -> dict[tuple[str, str], Weight]:
    """The edges that remain when none is left that others imply, given a closure.

    Nodes that determine each other (x = y + c) are one class: a star of edge pairs around its first node,
    ZERO if it is there. Between classes only the first nodes count, and an edge goes if a path through a
    third is as strong; there is one such set, because no two classes lie on a cycle of weight 0.
    """
    work = work or Work()
    first: dict[str, str] = {}
    nodes = _nodes(closed)
    work.spend(len(nodes) * len(nodes) // 2)
    for node in nodes:
        first[node] = next((other for other in first.values() if _fixed(closed, other, node)), node)
    kept = {}
    for node, head in first.items():
        if node != head:
            kept[node, head], kept[head, node] = closed[node, head], closed[head, node]
    heads = sorted(set(first.values()))
    work.spend(len(heads) ** 2 * (1 + len(heads) // 4))
    for x in heads:
        for y in heads:
            if x != y and (x, y) in closed and not _redundant(closed, heads, x, y):
                kept[x, y] = closed[x, y]
    return kept


def _nodes(edges: Edges) -> list[str]:
    return sorted({node for pair in edges for node in pair})


def _fixed(closed: Edges, x: str, y: str) -> bool:
    there, back = closed.get((x, y)), closed.get((y, x))
    return there is not None and back is not None and plus(there, back) == _SELF


def _redundant(closed: Edges, heads: list[str], x: str, y: str) -> bool:
    for z in heads:
        if z not in (x, y) and (x, z) in closed and (z, y) in closed:
            if plus(closed[x, z], closed[z, y]) <= closed[x, y]:
                return True
    return False
