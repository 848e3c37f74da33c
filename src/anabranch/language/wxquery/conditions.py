"""From the conditions of WXQuery to those of the SQL syntax tree, which `language/conditions` understands.

Comes in: a condition, the names in scope and the element that paths without a variable are about. Goes out:
an expression over columns. Never: a check of types, but for truth values, which WXQuery writes as strings:

    $p/ok = "true"     -> ok = TRUE
    $p/coord           -> coord.ra = coord.ra OR coord.dec = coord.dec     some of it is there
"""

from __future__ import annotations

from anabranch.language import syntax as s
from anabranch.language.wxquery import syntax as w
from anabranch.language.wxquery.names import Contents, Names, Result, Tree, check_value, contents
from anabranch.model.columns import ColumnType
from anabranch.predicates.terms import Op

_TRUTHS = {"true": True, "false": False}


def lowered(condition: w.Condition, names: Names, context: str | None) -> s.Expression:
    match condition:
        case w.AnyOf(terms=terms, span=span, depth=depth):
            return s.OrTerms(tuple(lowered(term, names, context) for term in terms), span, depth)
        case w.AllOf(terms=terms, span=span, depth=depth):
            return s.AndTerms(tuple(lowered(term, names, context) for term in terms), span, depth)
        case w.Parentheses(inner=inner, span=span, depth=depth):
            return s.InParentheses(lowered(inner, names, context), span, depth)
        case w.Comparison():
            return _compare(condition, names, context)
        case w.Path():
            return _is_there(condition, names, context)
        case w.Shifted():
            return _value(condition, names, context)
    return condition


def present(path: str, names: Names, span: s.Span) -> s.Expression:
    """Whether an element of an item is there: one of its columns is not missing."""
    columns = [s.Name(column.name, span) for column in names.below(path)]
    alone = tuple(s.Compare(name, Op.EQ, name, span, 0) for name in columns)
    return alone[0] if len(alone) == 1 else s.OrTerms(alone, span, 0)


def _is_there(path: w.Path, names: Names, context: str | None) -> s.Expression:
    match names.start(path, context):
        case Result(column=column):
            check_value(path)
            name = s.Name(column.name, path.span)
            return s.Compare(name, Op.EQ, name, path.span, 0)
        case Contents():
            raise contents(path)
        case Tree(path=end):
            for span, step in enumerate(path.steps):
                end = names.follow(end, step, span == 0)
            return present(end, names, path.span)


def _compare(compare: w.Comparison, names: Names, context: str | None) -> s.Compare:
    left, right = (_value(side, names, context) for side in (compare.left, compare.right))
    if _is_truth(compare.left, names, context):
        right = _truth(right)
    if _is_truth(compare.right, names, context):
        left = _truth(left)
    return s.Compare(left, compare.op, right, compare.span, 0)


def _value(value: w.Value, names: Names, context: str | None) -> s.Expression:
    match value:
        case w.Path():
            return names.operand(value, context)
        case w.Shifted(path=path, sign=sign, number=number, span=span):
            return s.Sum(((1, names.operand(path, context)), (sign, number)), span, 0)
    return value


def _is_truth(value: w.Value, names: Names, context: str | None) -> bool:
    return isinstance(value, w.Path) and names.value(value, context).type is ColumnType.BOOL


def _truth(value: s.Expression) -> s.Expression:
    if isinstance(value, s.String) and value.value in _TRUTHS:
        return s.Truth(_TRUTHS[value.value], value.span)
    return value


def walked(
    steps: tuple[w.Step, ...], base: str, names: Names, first: bool = True
) -> tuple[str, list[s.Expression]]:
    """Where steps lead from `base`, and the conditions on the way."""
    conditions = []
    for span, step in enumerate(steps):
        base = names.follow(base, step, first and span == 0)
        if step.condition is not None:
            conditions.append(lowered(step.condition, names, base))
    return base, conditions
