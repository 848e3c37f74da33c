"""WXQuery by the book: the query is evaluated on XML trees, item by item, as XQuery would.

A value is a list of nodes (elements) and atoms (numbers). Text is a number where it looks like one, but for
the element `name`. Windows are the paper's functions, from the first item of the stream: cut for count, run
for diff.
"""

from __future__ import annotations

import math
import operator
from copy import deepcopy
from typing import Any
from xml.etree.ElementTree import Element, SubElement

from anabranch.language import syntax as s
from anabranch.language.wxquery import syntax as w
from tests.oracles.paper_windows import cwin, dwin

Value = list[Any]
Env = dict[str, Value]

_OPS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


Streams = dict[str, list[Element]]


def answers(query: w.WXQuery, streams: Streams) -> list[Value]:
    """What each run through the outermost loops gives."""
    return [answer for main in query.mains for answer in _flwr(main, list(main.clauses), {}, streams)]


def _items(path: w.Path, streams: Streams) -> Value:
    """The item stands for itself: `stream("s")/s/item[p]/c` is `.[p]/c` of each item."""
    assert isinstance(path.origin, w.StreamPath)
    _, item, *rest = path.steps
    nodes: Value = streams[str(path.origin.argument)]
    for step in [w.Step(".", item.condition, item.span), *rest]:
        nodes = _step(nodes, step, {})
    return nodes


def _step(nodes: Value, step: w.Step, env: Env) -> Value:
    found = (
        nodes if step.name == "." else [child for node in nodes for child in node if child.tag == step.name]
    )
    return [node for node in found if step.condition is None or _holds(step.condition, env, node)]


def _windows(window: w.WindowExpression, data: list[Element], stream: list[Element]) -> list[Value]:
    size = int(window.size.value)
    step = size if window.step is None else int(window.step.value)
    if window.reference is None:
        found = cwin(size, step, data, "cut")
    elif stream:
        found = dwin(_time(stream[0]), size, step, data, _time, "run")
    else:
        found = []
    return [each for each in found if each]


def _time(item: Element) -> int:
    return int(item.findtext("t") or 0)


def _flwr(flwr: w.Flwr, clauses: list[w.For | w.Let], env: Env, streams: Streams) -> list[Value]:
    if not clauses:
        return [_value(flwr.result, env)] if flwr.where is None or _holds(flwr.where, env, None) else []
    first, *rest = clauses
    if isinstance(first, w.Let):
        return _flwr(flwr, rest, {**env, first.variable.name: _aggregate(first, env)}, streams)
    if isinstance(first.path.origin, w.StreamPath):
        found = [[node] for node in _items(first.path, streams)]
        if first.window is not None:
            whole = streams[str(first.path.origin.argument)]
            found = _windows(first.window, [node for (node,) in found], whole)
    else:
        found = [[node] for node in _value(first.path, env)]
    return [part for each in found for part in _flwr(flwr, rest, {**env, first.variable.name: each}, streams)]


def _aggregate(let: w.Let, env: Env) -> Value:
    atoms = [_atom(node) for node in _value(let.path, env)]
    match let.function.text:
        case "count":
            return [len(atoms)]
        case _ if not atoms:
            return []
        case "min":
            return [min(atoms)]
        case "max":
            return [max(atoms)]
        case "sum":
            return [_sum(atoms)]
    return [_sum(atoms) / len(atoms)]


def _sum(atoms: Value) -> Any:
    return math.fsum(atoms) if isinstance(atoms[0], float) else sum(atoms)


def _value(expression: w.Expression, env: Env) -> Value:
    match expression:
        case w.SequenceExpression(parts=parts):
            return [item for part in parts for item in _value(part, env)]
        case w.If(condition=condition, then=then, otherwise=otherwise):
            return _value(then if _holds(condition, env, None) else otherwise, env)
        case w.Flwr(clauses=clauses):
            return [item for part in _flwr(expression, list(clauses), env, {}) for item in part]
        case w.ElementExpression(name=name, content=content):
            made = Element(name)
            for part in content:
                add(made, _value(part, env))
            return [made]
    assert isinstance(expression, w.Path)
    assert isinstance(expression.origin, w.Variable)
    nodes = env[expression.origin.name]
    for step in expression.steps:
        nodes = _step(nodes, step, env)
    return nodes


def add(parent: Element, value: Value) -> None:
    """One enclosed expression into an element: a blank between two atoms, copies of nodes."""
    before_is_atom = False
    for item in value:
        if isinstance(item, Element):
            parent.append(deepcopy(item))
            before_is_atom = False
            continue
        text = f" {item!r}" if before_is_atom else repr(item)
        if len(parent):
            parent[-1].tail = (parent[-1].tail or "") + text
        else:
            parent.text = (parent.text or "") + text
        before_is_atom = True


def _holds(condition: w.Condition, env: Env, node: Element | None) -> bool:
    match condition:
        case w.AnyOf(terms=terms):
            return any(_holds(term, env, node) for term in terms)
        case w.AllOf(terms=terms):
            return all(_holds(term, env, node) for term in terms)
        case w.Parentheses(inner=inner):
            return _holds(inner, env, node)
        case w.Comparison(left=left, op=op, right=right):
            pairs = [(a, b) for a in _atoms(left, env, node) for b in _atoms(right, env, node)]
            return any(_OPS[op.value](a, b) for a, b in pairs)
    return bool(_atoms(condition, env, node))


def _atoms(value: Any, env: Env, node: Element | None) -> Value:
    match value:
        case s.Number(value=number):
            return [float(number)]
        case s.String(value=text):
            return [text]
        case s.Signed(sign=sign, value=inner):
            return [sign * atom for atom in _atoms(inner, env, node)]
        case w.Shifted(path=path, sign=sign, number=number):
            return [atom + sign * float(number.value) for atom in _atoms(path, env, node)]
    assert isinstance(value, w.Path)
    nodes = [node] if value.origin is None else env[value.origin.name]  # type: ignore[union-attr]
    for step in value.steps:
        nodes = _step(nodes, step, env)
    return [_atom(each) for each in nodes]


def _atom(item: Any) -> Any:
    if not isinstance(item, Element) or item.tag == "name":
        return item.text or "" if isinstance(item, Element) else item
    text = item.text or ""
    return int(text) if text.lstrip("-").isdigit() else float(text) if text else 0.0


def item(row: dict[str, Any], tag: str) -> Element:
    """A row of a stream as XML: paths become elements, missing values nothing."""
    made = Element(tag)
    for path, value in row.items():
        if value is None:
            continue
        node = made
        for name in path.split("."):
            child = node.find(name)
            node = SubElement(node, name) if child is None else child
        node.text = value if isinstance(value, str) else repr(value)
    return made
