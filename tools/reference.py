"""Writes the reference pages from the code.

    python -m tools.reference       # docs/reference/python.md and docs/reference/job.md

The Python page has the signatures and docstrings of what users call. The job page has every key of job.toml,
from the models that check job files (anabranch/job/reference.py).
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
WIDTH = 118

PYTHON_HEAD = """# Python

Use Anabranch from a notebook or a program: declare streams, register queries, read results. This page is
written by `python -m tools.reference`.

```python
import anabranch
from anabranch.spark.session import make_session

with anabranch.Engine(make_session(), "python-out") as engine:
    engine.stream("photons", format="parquet", path="photons/*.parquet", time="det_time")
    hot = engine.subscribe("hot", "SELECT det_time, en FROM photons WHERE en > 6")
    engine.run_once()
    print(hot.results())
```
"""

JOB_HEAD = """# job.toml

Describe a job in a file: where streams come from, which queries run, and where results go. This page has
every key; it is written by `python -m tools.reference`.

```toml
[stream.photons]
source = { format = "parquet", path = "photons/*.parquet" }
time = "det_time"

[[subscription]]
name = "hot"
query = "SELECT det_time, en FROM photons WHERE en > 6"

[sink]
format = "parquet"
path = "out"
```

Paths are relative to the file. An unknown key or a value of the wrong type is refused before anything runs;
the message has the line and what would be right.
"""


def python_page() -> str:
    from anabranch.model import errors
    from anabranch.model.job import Sink
    from anabranch.spark.engine import Engine, Handle
    from anabranch.spark.session import make_session

    parts = [PYTHON_HEAD]
    parts += _class(Engine, "anabranch.Engine")
    parts += _class(Handle, "anabranch.spark.engine.Handle", constructor=False)
    parts += _function(make_session, "anabranch.spark.session.make_session", "##")
    parts += _class(Sink, "anabranch.model.job.Sink")
    parts += [
        "## Errors\n",
        "All errors of Anabranch are subclasses of `anabranch.model.errors.AnabranchError`.\n",
    ]
    for name, one in inspect.getmembers(errors, inspect.isclass):
        if issubclass(one, Exception) and one.__module__ == errors.__name__:
            parts.append(f"### {name}\n")
            parts.append(_text(one))
    return "\n".join(parts).rstrip() + "\n"


def _class(one: type, name: str, constructor: bool = True) -> Iterator[str]:
    yield f"## {name.rpartition('.')[2]}\n"
    yield f"`{name}`\n"
    if constructor:
        yield _signature(one, one.__name__)
    yield _text(one)
    for key, member in vars(one).items():
        if inspect.isfunction(member) and not key.startswith("_"):
            yield from _function(member, key, "###")


def _function(function: Any, name: str, level: str) -> Iterator[str]:
    short = name.rpartition(".")[2]
    yield f"{level} {short}\n"
    yield _signature(function, short)
    yield _text(function)


def _signature(function: Any, name: str) -> str:
    """The call as a code block, in one line where it fits."""
    found = inspect.signature(function)
    shown = [_parameter(one) for key, one in found.parameters.items() if key != "self"]
    after = "" if found.return_annotation in ("None", found.empty) else f" -> {found.return_annotation}"
    line = f"{name}({', '.join(shown)}){after}"
    if len(line) > WIDTH:
        line = f"{name}(\n" + "".join(f"    {one},\n" for one in shown) + f"){after}"
    return f"```text\n{line}\n```\n"


def _parameter(one: inspect.Parameter) -> str:
    stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    default = "" if one.default is one.empty else f" = {one.default!r}"
    return f"{stars}{one.name}: {one.annotation}{default}"


def _text(one: Any) -> str:
    """The docstring; its examples become blocks."""
    lines: list[str] = []
    for paragraph in (inspect.getdoc(one) or "").split("\n\n"):
        if paragraph.lstrip().startswith(">>>") or paragraph.startswith("    "):
            language = "pycon" if paragraph.lstrip().startswith(">>>") else "text"
            lines.append(f"```{language}\n{textwrap.dedent(paragraph)}\n```\n")
        elif re.match(r"\s*-", paragraph):
            lines.append(f"{paragraph}\n")
        elif paragraph:
            lines.append("\n".join(_wrapped(paragraph)) + "\n")
    return "\n".join(lines)


def job_page() -> str:
    from anabranch.job.reference import job_reference

    lines = [JOB_HEAD]
    for table, settings in groupby(sorted(job_reference(), key=_order), key=lambda setting: setting.table):
        lines.append(f"## {table}\n")
        for one in settings:
            default = "required" if one.default is None else f"default `{one.default}`"
            default = default if one.default != "" else "optional"
            text = f"- **{one.key}** ({one.must_be}; {default}): {one.description} Example: `{one.example}`"
            lines += [line if not number else f"  {line}" for number, line in enumerate(_wrapped(text))]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _order(setting: Any) -> int:
    """Tables in the order in which they first appear, the keys of a table together."""
    from anabranch.job.reference import job_reference

    return list(dict.fromkeys(one.table for one in job_reference())).index(setting.table)


def _wrapped(text: str) -> Iterator[str]:
    """Lines that fit; code in backticks is not cut."""
    line = ""
    for word in re.findall(r"(?:`[^`]*`|\S)+", text):
        if line and len(line) + 1 + len(word) > WIDTH - 2:
            yield line
            line = word
        else:
            line = f"{line} {word}".strip()
    yield line


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "python.md").write_text(python_page())
    (FOLDER / "job.md").write_text(job_page())


if __name__ == "__main__":
    main()
