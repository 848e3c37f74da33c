"""Rows as JSON, one object per row: missing values are null, timestamps ISO 8601 in UTC."""

from __future__ import annotations

import json
import math
from datetime import datetime
from typing import Any

import pyarrow as pa


def json_lines(rows: pa.RecordBatch) -> list[str]:
    return [json.dumps(json_row(row), ensure_ascii=False) for row in _python_rows(rows)]


def _python_rows(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    try:
        return list(rows.to_pylist())
    except (OverflowError, ValueError):  # a timestamp before the year 1 or after 9999: Python has none
        columns = [
            column.cast(pa.string()) if pa.types.is_timestamp(column.type) else column
            for column in rows.columns
        ]
        return list(pa.record_batch(columns, names=rows.schema.names).to_pylist())


def json_row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _json_value(value) for name, value in row.items()}


def _json_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list):
        return [_json_value(entry) for entry in value]
    return value
