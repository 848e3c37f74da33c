"""The queries of docs/wxquery.md compile, and mean what is said there."""

from __future__ import annotations

import re

import pytest

from anabranch.language.bind import compile_query
from tests.conftest import ROOT
from tests.language.wxquery.paper import PHOTONS

TEXT = (ROOT / "docs" / "wxquery.md").read_text()
XQUERY = re.findall(r"```xquery\n(.*?)```", TEXT, re.DOTALL)
SQL = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)
STREAMS = {"photons": PHOTONS}


@pytest.mark.parametrize("query", XQUERY)
def test_compiles(query: str) -> None:
    assert compile_query(query, STREAMS).construction is not None


def test_asks_the_same() -> None:
    assert compile_query(XQUERY[0], STREAMS).spec == compile_query(SQL[0], STREAMS).spec
