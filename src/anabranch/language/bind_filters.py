"""Gives select and aggregate queries their meaning, with the parts that both languages use.

Comes in: the head and the clauses of a query, and the scope of its names. Goes out: a Select or an Aggregate.
Never: a spec that can never have a result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from anabranch.families.filters.spec import (
    HIDDEN,
    Aggregate,
    Aggregation,
    Function,
    Output,
    Select,
)
from anabranch.language import syntax as s
from anabranch.language.clauses import Clauses
from anabranch.language.conditions import FALSE, condition
from anabranch.language.errors import pointing_at, refuse
from anabranch.language.scopes import (
    FUNCTIONS,
    TYPE_WORDS,
    ItemScope,
    ResultScope,
    default_name,
    unknown_function,
)
from anabranch.language.windows import bind_window
from anabranch.model.columns import ColumnType
from anabranch.model.limits import LimitError
from anabranch.model.stream import NUMBER, Stream
from anabranch.predicates.conjunction import EVERYTHING, Normal
from anabranch.predicates.normal import is_possible, normal_form, unsatisfiable_reason
from anabranch.predicates.terms import TRUE, Term
from anabranch.predicates.work import Work

#: Columns that every result of an aggregate query has besides its aggregates.
WINDOW_COLUMNS = ("window_start", "window_end", "items")


@dataclass(frozen=True)
class Condition:
    """A condition that some item can satisfy, and its normal form."""

    term: Term = TRUE
    normal: Normal = EVERYTHING


def possible(term: Term, stream: Stream, span: s.Span, work: Work) -> Condition:
    """The condition, unless no item can ever satisfy it."""
    if term == TRUE:
        return Condition()
    if term == FALSE:
        raise refuse("this can never be true", span)
    with pointing_at(span):
        normal = normal_form(term, stream, work)
        if is_possible(normal, work):
            return Condition(term, normal)
    try:
        reason = unsatisfiable_reason(term, stream, work)
    except LimitError:  # it cannot be true, and why would take too long to find out
        reason = None
    if reason is None:
        raise refuse("this can never be true: no item can satisfy all of it", span)
    raise refuse(f"this can never be true: {reason.replace(HIDDEN, '')}", span)


# --- select ---


def bind_select(head: s.Chosen, scope: ItemScope, where: Condition) -> Select:
    if not head.items:
        every = tuple(Output(column.name, column.name) for column in scope.given)
        return Select(every, where.term, tuple(scope.made.values()), where.normal)
    outputs = [_output(item, scope) for item in head.items]
    _check_names([output.name for output in outputs], head)
    return Select(tuple(outputs), where.term, tuple(scope.made.values()), where.normal)


def _output(item: s.Item, scope: ItemScope) -> Output:
    value = item.value
    column = (scope.column(value) if isinstance(value, s.Name) else scope.call(value)).name
    return Output(column, item.alias.text if item.alias else column)


def _check_names(names: list[str], head: s.Chosen, taken: tuple[str, ...] = ()) -> None:
    seen = set(taken)
    for name, item in zip(names, head.items, strict=True):
        for reserved in (NUMBER, HIDDEN):
            if name.startswith(reserved):
                raise refuse(
                    f"a result column cannot be called '{name}'; names must not begin with {reserved}",
                    item.span,
                )
        if name in taken:
            raise refuse(
                f"the results have a column '{name}' already; give this one another name with AS", item.span
            )
        if name in seen:
            raise refuse(f"two result columns are called '{name}'; rename one with AS", item.span)
        seen.add(name)


# --- aggregate ---


def bind_aggregate(head: s.Chosen, clauses: Clauses, scope: ItemScope, where: Condition) -> Aggregate:
    bound = [bind_aggregation(item, scope) for item in head.items]
    aggregations, types = tuple(a for a, _ in bound), tuple(type_ for _, type_ in bound)
    _check_names([aggregation.name for aggregation in aggregations], head, WINDOW_COLUMNS)
    clause = clauses.need(s.WindowClause, head, "WINDOW ROWS 20 STEP 10")
    window = bind_window(clause, clauses.get(s.AtEndClause), scope.stream, scope.text)
    called = partial(_called, scope=scope)
    results = ResultScope(scope.text, aggregations, types, scope.stream, called, scope.work)
    having = _having(clauses, results)
    made = tuple(scope.made.values())
    return Aggregate(tuple(results.aggregations), window, where.term, having, made, where.normal)


def _having(clauses: Clauses, scope: ResultScope) -> Term:
    having = clauses.get(s.Having)
    if having is None:
        return TRUE
    return possible(condition(having.condition, scope), scope.pseudo_stream(), having.span, scope.work).term


def bind_aggregation(item: s.Item, scope: ItemScope) -> tuple[Aggregation, ColumnType]:
    """An aggregate and the type of its results."""
    call = item.value
    if isinstance(call, s.Name):
        scope.column(call)
        raise refuse(
            f"{call.text} is a column among aggregates; select either, or write for example max({call.text})",
            item.span,
        )
    if scope.is_operator(call.function):
        shown = scope.shown(call.span)
        raise refuse(
            f"{shown} is a value per item among aggregates; select either, or write for example max({shown})",
            item.span,
        )
    aggregation, type_ = _called(call, scope)
    return replace(aggregation, name=item.alias.text) if item.alias else aggregation, type_


def _called(call: s.Call, scope: ItemScope) -> tuple[Aggregation, ColumnType]:
    """An aggregate under the name it has by itself."""
    if call.function not in FUNCTIONS:
        raise unknown_function(call)
    function = Function(call.function)
    column = _aggregated(call, scope)
    type_ = _result_type(function, None if column is None else scope.stream.type_of(column), call, scope)
    return Aggregation(function, column, default_name(function, column)), type_


def _aggregated(call: s.Call, scope: ItemScope) -> str | None:
    match call.arguments:
        case ():
            return None
        case (s.Name() as name,):
            return scope.column(name).name
        case (s.Call() as inner,):
            return scope.call(inner).name
    wrong = call.arguments[-1].span
    raise refuse(
        f"found '{scope.shown(wrong)}', expected one column or operator: {call.function}(price)",
        wrong,
    )


def _result_type(function: Function, column: ColumnType | None, call: s.Call, scope: ItemScope) -> ColumnType:
    if function is Function.COUNT:
        return ColumnType.INT
    if column is None:
        raise refuse(
            f"{function}(*) has no meaning; only count takes *, the others a column: {function}(price)",
            call.span,
        )
    allowed = column.is_number or (
        column is ColumnType.TIMESTAMP and function in (Function.MIN, Function.MAX)
    )
    if not allowed:
        takes = "numbers and timestamps" if function in (Function.MIN, Function.MAX) else "numbers"
        words = f"{scope.shown(call.arguments[0].span)} is {TYPE_WORDS[column]}"
        raise refuse(f"{words}; {function} takes {takes}, count takes any column", call.span)
    return ColumnType.FLOAT if function is Function.AVG else column
