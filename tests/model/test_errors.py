"""Errors: their exit status, and how a refused query is shown."""

from __future__ import annotations

from anabranch.model.errors import FormatError, JobError, QueryError, RunError


def test_exit_statuses() -> None:
    assert [kind.exit_status for kind in (JobError, QueryError, RunError, FormatError)] == [2, 2, 1, 1]


def test_a_query_error_points_into_the_text() -> None:
    error = QueryError("unknown column 'enn'", "SELECT enn FROM photons", 7, 3)
    assert str(error) == "unknown column 'enn'\n  SELECT enn FROM photons\n         ^^^"


def test_on_a_later_line_it_says_which() -> None:
    error = QueryError("unknown column 'enn'", "SELECT ra,\n  enn\nFROM photons", 13, 3)
    assert str(error) == "unknown column 'enn' (line 2)\n    enn\n    ^^^"


def test_without_a_place_there_is_only_the_message() -> None:
    assert str(QueryError("no", "SELECT")) == "no"


def test_a_place_beyond_the_text_is_its_end() -> None:
    assert str(QueryError("more is wanted", "SELECT", 99, 5)) == "more is wanted\n  SELECT\n        ^"
