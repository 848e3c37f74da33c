"""select, by brute force."""

from __future__ import annotations

from typing import Any

from anabranch.families.filters.spec import Select
from tests.laws.case import Case
from tests.oracles.conditions import holds
from tests.oracles.stream_order import seen, stream_order


def select_oracle(case: Case) -> dict[str, list[dict[str, Any]]]:
    items, _ = stream_order(case.stream, case.items.to_pylist())
    out = {}
    for asked in case.queries:
        spec = Select.from_json(asked.spec)
        out[asked.name] = [
            {output.name: item[output.column] for output in spec.outputs}
            for item in seen(items, asked.after, asked.until)
            if holds(spec.condition, item)
        ]
    return out
