"""Quoted figures are those in docs/figures.json, and docs/benchmarks.md shows all of them."""

from __future__ import annotations

import re

from tests.conftest import ROOT
from tools import figures


def test_the_tables_are_those_of_the_file() -> None:
    text = figures.PAGE.read_text()
    assert text == figures.with_tables(text, figures.load()), "run python -m tools.figures"


def test_quoted_figures_are_those_of_the_file() -> None:
    values, wrong = figures.values(figures.load()), []
    for page in figures.pages():
        for key, text in figures.quoted(page):
            value = values.get(key)
            if value is None or not text.startswith(value) or re.match(r"[\d.,]*\d", text[len(value) :]):
                wrong.append(f"{page.name}: {key} is {value}, the page has {text[:20]!r}")
    assert not wrong


def test_commands_of_figures_exist() -> None:
    for run in figures.load():
        module = re.match(r"python -m ([\w.]+)", run["command"])
        if module is not None:
            assert (ROOT / (module[1].replace(".", "/") + ".py")).exists(), run["command"]
            source = (ROOT / (module[1].replace(".", "/") + ".py")).read_text()
            for option in re.findall(r"--[\w-]+", run["command"]):
                assert option in source, run["command"]


def test_a_recorded_figure_reaches_the_pages() -> None:
    old, new = {"a.b": "0.95", "a.c": "3"}, {"a.b": "0.97", "a.c": "3"}
    page = "about <!-- figure: a.b -->0.95, and <!-- figure: a.c -->3 of 0.95"
    assert figures.with_quotes(page, old, new) == page.replace("-->0.95", "-->0.97")


def test_figures_are_shown_with_three_digits() -> None:
    assert [figures.shown(value) for value in (0.8532, 12.84, 606_123.0, 3)] == [
        "0.853",
        "12.8",
        "606,000",
        "3",
    ]
