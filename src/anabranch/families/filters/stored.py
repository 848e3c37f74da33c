"""Small facts in the state, as JSON; put only when they changed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from anabranch.zones.state import State


def put_json(state: State, key: str, value: Any) -> None:
    body = np.frombuffer(json.dumps(value).encode(), np.uint8)
    held = state.get(key)
    if held is None or not np.array_equal(held["json"], body):
        state.put(key, {"json": body})


def get_json(state: State, key: str) -> Any:
    held = state.get(key)
    return None if held is None else json.loads(bytes(held["json"]))
