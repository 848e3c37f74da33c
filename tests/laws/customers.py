"""Who the four laws are tried on. A family registers itself here with a way to draw cases and an oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from hypothesis.strategies import SearchStrategy

from tests.laws.case import Case, Row


@dataclass(frozen=True)
class Customer:
    """`canonical` brings rows whose order docs/queries.md leaves open into one order, on both sides."""

    name: str
    cases: SearchStrategy[Case]
    oracle: Callable[[Case], dict[str, list[Row]]]
    canonical: Callable[[list[Row]], list[Any]] = list


#: module in tests.laws -> attribute; each draws its own cases
_CUSTOMERS = ("select", "aggregate", "operators", "clusters", "moving", "nearest")


def customers() -> list[Customer]:
    return [import_module(f"tests.laws.draw_{name}").CUSTOMER for name in _CUSTOMERS]
