"""Figures that the documentation quotes: docs/figures.json holds them, benches write them, pages quote them.

    ANABRANCH_RECORD=1 python -m bench.pipeline     # runs a bench and records what it reports
    python -m tools.figures                         # writes the figures into the pages

A run in the file has a command, a machine, a date and figures. A figure that names what the bench reports
(`reported`) is replaced when that command runs again. docs/benchmarks.md shows every run as a table; other
pages quote a figure behind a marker, for example `<!-- figure: pipeline.thousand -->0.95`. A test compares
pages and file (tests/docs/test_figures.py).
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "docs" / "figures.json"
PAGE = ROOT / "docs" / "benchmarks.md"
START, END = "<!-- figures: written by python -m tools.figures -->", "<!-- end of the figures -->"
MARKER = re.compile(r"<!-- figure: (?P<key>[\w.]+) -->")


def load() -> list[dict[str, Any]]:
    return list(json.loads(FILE.read_text())["runs"])


def values(runs: list[dict[str, Any]]) -> dict[str, str]:
    """Returns the quoted text of every figure, by run and name: `pipeline.thousand`."""
    return {f"{run['key']}.{name}": one["value"] for run in runs for name, one in run["figures"].items()}


def shown(value: float) -> str:
    """Three digits, and commas in thousands: 0.853, 12.8, 606,000."""
    if abs(value) >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def record(reported: Mapping[str, float]) -> int:
    """Replaces the figures of the run with this command line by what was reported, in the file and in the
    pages; returns how many.
    """
    runs, count = load(), 0
    for run in runs:
        if run["command"] != this_command():
            continue
        for one in run["figures"].values():
            if one.get("reported") in reported:
                one["value"] = shown(reported[one["reported"]])
                one.pop("date", None)
                count += 1
            else:  # measured earlier than the rest of its run
                one.setdefault("date", run["date"])
        run["machine"], run["date"] = machine(), date.today().isoformat()
    old = values(load())
    FILE.write_text(json.dumps({"runs": runs}, indent=1, ensure_ascii=False) + "\n")
    for page in pages():
        page.write_text(with_quotes(page.read_text(), old, values(runs)))
    main()
    return count


def this_command() -> str:
    """The command line of this process as the pages write it: `python -m bench.pipeline --rows 1000`."""
    return " ".join(["python", *sys.orig_argv[1:]])


def machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{os.cpu_count()} cores ({name}), load average {os.getloadavg()[0]:.1f}"


def tables(runs: list[dict[str, Any]]) -> str:
    """Every run as a section with a table, for docs/benchmarks.md."""
    return "\n".join(line for run in runs for line in _section(run))


def _section(run: dict[str, Any]) -> Iterator[str]:
    yield f"### {run['title']}\n"
    yield f"`{run['command']}`, {run['machine']}, {run['date']}.\n"
    if "note" in run:
        yield from _wrapped(run["note"])
        yield ""
    yield "| figure | measured | target |"
    yield "|---|---|---|"
    for one in run["figures"].values():
        earlier = f" ({one['date']})" if "date" in one else ""
        yield f"| {one['what']} | {one['value']}{earlier} | {one.get('target', '')} |"
    yield ""


def _wrapped(text: str) -> Iterator[str]:
    """Lines of at most 118 characters; code in backticks is not cut."""
    line = ""
    for word in re.findall(r"`[^`]*`\S*|\S+", text):
        if line and len(line) + 1 + len(word) > 118:
            yield line
            line = word
        else:
            line = f"{line} {word}".strip()
    yield line


def with_tables(text: str, runs: list[dict[str, Any]]) -> str:
    """The page docs/benchmarks.md with the tables of these runs."""
    head, _, rest = text.partition(START)
    _, _, tail = rest.partition(END)
    return f"{head}{START}\n\n{tables(runs)}\n{END}{tail}"


def with_quotes(text: str, old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """A page with quoted figures replaced; `old` says where a quoted text ends."""
    for key, value in old.items():
        marker = f"<!-- figure: {key} -->"
        pattern = marker + re.escape(value).replace(r"\ ", r"\s")
        text = re.sub(pattern, lambda match, new=marker + new[key]: new, text)
    return text


def quoted(page: Path) -> Iterator[tuple[str, str]]:
    """Yields the key of every quoted figure of a page, and the text behind the marker."""
    text = page.read_text()
    for match in MARKER.finditer(text):
        yield match["key"], re.sub(r"\s+", " ", text[match.end() : match.end() + 80])


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def main() -> None:
    """Writes the tables of docs/benchmarks.md."""
    PAGE.write_text(with_tables(PAGE.read_text(), load()))


if __name__ == "__main__":
    main()
