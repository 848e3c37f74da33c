"""Parsers from grammar files. Building the tables of one takes a tenth of a second: they are kept on disk."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from lark import Lark, Transformer


def parser_of(grammar: Path, lexer: str, transformer: Transformer[Any, Any]) -> Lark:
    """Returns the parser of a grammar. The tables are beside Python's compiled modules; where they cannot be
    written they are built each time. They are built again when the grammar or Lark changes.
    """
    tables = grammar.parent / "__pycache__" / f"{grammar.name}.{sys.implementation.cache_tag}"
    with suppress(OSError):
        tables.parent.mkdir(exist_ok=True)
    options: dict[str, Any] = {"lexer": lexer, "transformer": transformer, "cache": str(tables)}
    return Lark(grammar.read_text(encoding="utf-8"), parser="lalr", **options)
