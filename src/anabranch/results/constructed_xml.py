"""Results as the XML that a WXQuery constructs.

One line per row: the tree that `return` constructs, inside the markup that the query has around its `for`.
Every node becomes a column of text, as in encoding.py. A missing value gives no element, and a row from which
nothing is constructed gives no line.

Values next to each other in a sequence are separated by a blank, those of two enclosed expressions are not:
{ $a, $b } is `1.5 2.5`, { $a } { $b } is `1.52.5`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.language.wxquery.construction import (
    Atom,
    Construction,
    Element,
    Markup,
    Node,
    Sequence,
    Subtree,
    When,
)
from anabranch.model.arrays import Array
from anabranch.predicates.evaluate import evaluate
from anabranch.results.encoding import Encoder, xml_name, xml_text


class ConstructedXml(Encoder):
    """The results of one loop of a construction, with the markup before it; the last has the markup after it,
    too.
    """

    def __init__(self, schema: pa.Schema, construction: Construction, loop: int = 0) -> None:
        super().__init__(schema)
        self.row = construction.loops[loop].row
        self.before = construction.markup[loop]
        self.after = construction.markup[-1] if loop == len(construction.loops) - 1 else ""

    def begin(self) -> bytes:
        return _line(self.before)

    def parts(self, batch: pa.RecordBatch) -> list[Any]:
        text = _texts(self.row, batch).text
        return [text, pc.if_else(pc.equal(text, ""), "", "\n")]

    def end(self) -> bytes:
        return _line(self.after)


def item_texts(node: Node, items: pa.RecordBatch) -> pa.Array:
    """Returns the XML that a node gives for every item."""
    return _texts(node, items).text


def _line(markup: str) -> bytes:
    return f"{markup}\n".encode() if markup else b""


@dataclass(frozen=True)
class _Texts:
    """The text of a node in every row: empty where it gives nothing; and whether it begins and ends with a
    value rather than an element.
    """

    text: pa.Array
    begins: Array
    ends: Array


def _texts(node: Node, rows: pa.RecordBatch) -> _Texts:
    match node:
        case Element(name=name, content=content):
            return _elements(
                _wrapped(name, _joined([_texts(part, rows).text for part in content], rows), rows)
            )
        case Subtree():
            return _elements(_subtree(node, rows))
        case Atom(column=column):
            text = pc.fill_null(xml_text(rows.column(column)), "")
            values = np.ones(rows.num_rows, bool)
            return _Texts(text, values, values)
        case Markup(column=column):
            return _elements(rows.column(column))
        case Sequence(parts=parts):
            return reduce(_followed, (_texts(part, rows) for part in parts), _elements(_constant("", rows)))
        case When(condition=condition, then=then, otherwise=otherwise):
            return _chosen(evaluate(condition, rows), _texts(then, rows), _texts(otherwise, rows))


def _elements(text: pa.Array) -> _Texts:
    no = np.zeros(len(text), bool)
    return _Texts(text, no, no)


def _followed(left: _Texts, right: _Texts) -> _Texts:
    """A sequence of two, with a blank between two values."""
    no_left, no_right = (_mask(pc.equal(side.text, "")) for side in (left, right))
    blank = left.ends & right.begins & ~no_left & ~no_right
    text = pc.binary_join_element_wise(left.text, pc.if_else(pa.array(blank), " ", ""), right.text, "")
    begins = np.where(no_left, right.begins, left.begins)
    return _Texts(text, begins, np.where(no_right, left.ends, right.ends))


def _chosen(mask: Array, then: _Texts, otherwise: _Texts) -> _Texts:
    return _Texts(
        pc.if_else(pa.array(mask), then.text, otherwise.text),
        np.where(mask, then.begins, otherwise.begins),
        np.where(mask, then.ends, otherwise.ends),
    )


def _subtree(tree: Subtree, rows: pa.RecordBatch) -> pa.Array:
    """Returns an element of the item: nothing where it and all that is in it is missing."""
    name = xml_name(tree.name)
    inner = [_subtree(part, rows) for part in tree.parts]
    if tree.column is None:
        content = _joined(inner, rows)
        return pc.if_else(pc.equal(content, ""), "", _wrapped(name, content, rows))
    own = xml_text(rows.column(tree.column))
    content = _joined([pc.fill_null(own, ""), *inner], rows)
    there = pc.or_(own.is_valid(), pc.not_equal(content, ""))
    return pc.if_else(there, _wrapped(name, content, rows), "")


def _wrapped(name: str, content: pa.Array, rows: pa.RecordBatch) -> pa.Array:
    full = pc.binary_join_element_wise(_constant(f"<{name}>", rows), content, f"</{name}>", "")
    return pc.if_else(pc.equal(content, ""), f"<{name}/>", full)


def _joined(texts: list[pa.Array], rows: pa.RecordBatch) -> pa.Array:
    return pc.binary_join_element_wise(*texts, "") if texts else _constant("", rows)


def _constant(text: str, rows: pa.RecordBatch) -> pa.Array:
    return pa.repeat(pa.scalar(text), rows.num_rows)


def _mask(flags: pa.Array) -> Array:
    return np.asarray(flags.to_numpy(zero_copy_only=False))
