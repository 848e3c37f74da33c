"""The code blocks of the documentation, found in README.md, CONTRIBUTING.md, docs and examples.

A block names its language: `python`, `sh` (commands), `console` (commands with their output), `toml`, `sql`,
`xquery`, `json`, `pycon` (a doctest, run where it is written), or `text` for what is only to be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT

LANGUAGES = ("python", "sh", "console", "toml", "sql", "xquery", "json", "pycon", "text")
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A command line of a block, and the output that the page shows for it (None: it shows none)."""

    place: str
    text: str
    output: str | None = None

    @property
    def words(self) -> list[str]:
        return self.text.split()


def pages() -> list[Path]:
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    return found + sorted((ROOT / "docs").rglob("*.md")) + sorted((ROOT / "examples").rglob("*.md"))


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(*languages: str) -> list[Block]:
    """All blocks, or those of some languages."""
    return [
        block for page in pages() for block in blocks_of(page) if not languages or block.language in languages
    ]


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 2
        body = re.sub(rf"^{match[1]}", "", match[3], flags=re.MULTILINE)
        yield Block(name_of(page), line, match[2], body)


def commands(block: Block) -> Iterator[Command]:
    """The command lines of a `sh` or `console` block, without comments; a backslash continues a line."""
    joined = re.sub(r"\\\n\s*", "", block.text)
    if block.language == "sh":
        for line in joined.splitlines():
            command = re.sub(r"(^|\s+)#.*$", "", line).strip()
            if command:
                yield Command(str(block), command)
        return
    for part in re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield Command(str(block), command.strip(), output)


def shows(output: str, shown: str) -> bool:
    """Whether an output is what a page shows; `...` stands for any text."""
    pattern = ".*".join(re.escape(piece) for piece in shown.strip().split("..."))
    return re.fullmatch(pattern, output.strip(), re.DOTALL) is not None
