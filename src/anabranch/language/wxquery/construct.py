"""From `return` to a Construction, and from what is around the `for` to markup.

Comes in: expressions of the syntax tree, the names in scope. Goes out: nodes of a Construction. Never: what
the engine computes; a for in a return goes over elements of the item, of which each is there once or not at
all.
"""

from __future__ import annotations

from dataclasses import replace

from anabranch.language import syntax as s
from anabranch.language.conditions import condition, conjunction
from anabranch.language.errors import refuse
from anabranch.language.scopes import Scope
from anabranch.language.wxquery import construction as c
from anabranch.language.wxquery import syntax as w
from anabranch.language.wxquery.conditions import lowered, present, walked
from anabranch.language.wxquery.names import Contents, Names, Result, Tree, check_value, contents


def constructed(expression: w.Expression, names: Names, scope: Scope) -> c.Node:
    match expression:
        case w.ElementExpression(name=name, content=content):
            return c.Element(name, tuple(constructed(part, names, scope) for part in content))
        case w.SequenceExpression(parts=parts):
            return c.Sequence(tuple(constructed(part, names, scope) for part in parts))
        case w.If(condition=asked, then=then, otherwise=otherwise):
            term = condition(lowered(asked, names, None), scope)
            return c.When(term, constructed(then, names, scope), constructed(otherwise, names, scope))
        case w.Flwr(clauses=(w.For() as first, *_)) if _is_contents(first.path, names):
            return _per_item(expression, names, scope)
        case w.Flwr(clauses=clauses, where=where, result=result):
            inner, conditions = further(clauses, names)
            if where is not None:
                conditions.append(lowered(where, inner, None))
            return _where(conditions, constructed(result, inner, scope), scope)
        case w.Path():
            return _output(expression, names, scope)


def _is_contents(path: w.Path, names: Names) -> bool:
    return names.contents is not None and isinstance(names.start(path, None), Contents)


def _per_item(expression: w.Flwr | w.Path, names: Names, scope: Scope) -> c.Markup:
    """What is made of each item of a window: `$w/en`, or `for $p in $w return ...`."""
    assert names.contents is not None
    trees = {
        name: Tree(meaning.path) if isinstance(meaning, Contents) else meaning
        for name, meaning in names.variables.items()
    }
    column = scope.text[expression.span[0] : sum(expression.span)]
    names.contents[column] = constructed(expression, replace(names, variables=trees, contents=None), scope)
    return c.Markup(column)


def further(clauses: tuple[w.For | w.Let, ...], names: Names) -> tuple[Names, list[s.Expression]]:
    """The names after more `for`, each over an element of an item, and the conditions on the way."""
    conditions: list[s.Expression] = []
    for clause in clauses:
        if isinstance(clause, w.Let):
            raise refuse(
                "a let without a window; aggregates need one, such as |count 20 step 10|", clause.span
            )
        if clause.window is not None:
            raise refuse("a window over a part of an item: windows are over streams", clause.window.span)
        match names.start(clause.path, None):
            case Result():
                raise refuse("a for over the value of an aggregate; write the variable", clause.path.span)
            case Contents():
                raise contents(clause.path)
            case Tree(path=base):
                end, found = walked(clause.path.steps, base, names)
                conditions += [*found, *([present(end, names, clause.path.span)] if end else [])]
                names = names.having(clause.variable, Tree(end))
    return names, conditions


def _where(conditions: list[s.Expression], node: c.Node, scope: Scope) -> c.Node:
    if not conditions:
        return node
    return c.When(conjunction(condition(each, scope) for each in conditions), node, c.EMPTY)


def _output(path: w.Path, names: Names, scope: Scope) -> c.Node:
    match names.start(path, None):
        case Result(column=column):
            check_value(path)
            return c.Atom(column.name)
        case Contents() if names.contents is not None:
            return _per_item(path, names, scope)
        case Contents():
            raise contents(path)
        case Tree(path=base):
            end, conditions = walked(path.steps, base, names)
            return _where(conditions, _subtree(end, names), scope)


def _subtree(path: str, names: Names) -> c.Node:
    """An element with all that is in it; an item is there even where all of it is missing."""
    columns = [column.name.split(".") for column in names.below(path)]
    if path in names.items:
        return c.Element(names.items[path], tuple(_trees(columns, len(path.split(".")) if path else 0)))
    (tree,) = _trees(columns, path.count("."))
    return tree


def _trees(paths: list[list[str]], depth: int) -> list[c.Subtree]:
    """The elements at a depth of paths that are the same above it, in order of appearance."""
    groups: dict[str, list[list[str]]] = {}
    for path in paths:
        groups.setdefault(path[depth], []).append(path)
    out = []
    for name, group in groups.items():
        own = next((".".join(path) for path in group if len(path) == depth + 1), None)
        deeper = [path for path in group if len(path) > depth + 1]
        out.append(c.Subtree(name, own, tuple(_trees(deeper, depth + 1))))
    return out


# --- around the for ---


def markup(body: w.Expression) -> tuple[str, ...]:
    """What stands before, between and after the results of the loops."""
    out = [""]
    for piece in _pieces(body):
        if piece is None:
            out.append("")
        else:
            out[-1] += piece
    return tuple(out)


def _pieces(expression: w.Expression) -> list[str | None]:
    """Markup, with None where the results go."""
    match expression:
        case w.ElementExpression(name=name, content=content):
            inner = [piece for part in content for piece in _pieces(part)]
            return [f"<{name}>", *inner, f"</{name}>"] if inner else [f"<{name}/>"]
        case w.SequenceExpression(parts=parts):
            return [piece for part in parts for piece in _pieces(part)]
    return [None]
