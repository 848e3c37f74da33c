"""Operators of users: deterministic Python functions over columns, known by name.

In: a function and the types of the columns it makes. Out: the same function, applied to items.
Never: a look inside; two uses are the same if name and parameters are.

    registry = Registry()
    registry.register("scaled", scaled, {"scaled": ColumnType.FLOAT})
    double = registry.operator("scaled", parameters=(2.0,), reads=("en",))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.model.columns import ColumnType
from anabranch.model.errors import QueryError
from anabranch.sharing.properties import Operator

Array = np.ndarray[Any, Any]

#: parameters, columns -> the columns it makes, in the order in which it was registered
Function = Callable[[tuple[Any, ...], Sequence[Array]], Sequence[Array]]


class Registry:
    def __init__(self) -> None:
        self._known: dict[str, tuple[Function, dict[str, ColumnType]]] = {}

    def register(self, name: str, function: Function, makes: Mapping[str, ColumnType]) -> None:
        if name in self._known:
            raise QueryError(f"an operator {name!r} is registered already; give this one another name")
        self._known[name] = (function, dict(makes))

    def operator(self, name: str, parameters: Iterable[Any] = (), reads: Iterable[str] = ()) -> Operator:
        """A use of it, for the properties of a query."""
        return Operator(name, tuple(parameters), tuple(reads), tuple(self._find(name)[1]))

    def types(self, operators: Iterable[Operator]) -> dict[str, ColumnType]:
        """The columns that these make."""
        return {name: kind for operator in operators for name, kind in self._find(operator.name)[1].items()}

    def apply(self, operators: Iterable[Operator], rows: pa.RecordBatch) -> pa.RecordBatch:
        """The items with the columns that these make; one may read what another made."""
        waiting = sorted(operators)
        while waiting:
            ready = [one for one in waiting if set(one.reads) <= set(rows.schema.names)]
            if not ready:
                raise QueryError(
                    f"operator {waiting[0].name!r} reads {', '.join(waiting[0].reads)}, "
                    f"and the items have {', '.join(rows.schema.names)}"
                )
            for one in ready:
                given = [rows.column(name).to_numpy(zero_copy_only=False) for name in one.reads]
                for name, values in zip(
                    one.makes, self._find(one.name)[0](one.parameters, given), strict=True
                ):
                    rows = rows.append_column(name, pa.array(values))
            waiting = [one for one in waiting if one not in ready]
        return rows

    def _find(self, name: str) -> tuple[Function, dict[str, ColumnType]]:
        if name not in self._known:
            known = ", ".join(self._known) or "none"
            raise QueryError(f"there is no operator {name!r}; registered are: {known}")
        return self._known[name]
