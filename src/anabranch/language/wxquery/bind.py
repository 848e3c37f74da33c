"""Gives a WXQuery its meaning: the spec that SQL would give, and what is made of the results.

Comes in: a Query and its stream. Goes out: a Select or an Aggregate, and a Construction. Never: a part of the
query that is left out; what cannot be done is refused by its name.

    for $p in stream("photons")/photons/photon[en > 1]/coord     the items with en > 1 that have a coord
    where $p/cel/ra > 120                                        and more conditions
    return <x> { $p/cel } </x>                                   the columns that the construction reads
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.families.filters.spec import Aggregate, Aggregation, Output, Select
from anabranch.language import syntax as s
from anabranch.language.bind_filters import WINDOW_COLUMNS, bind_aggregation, possible
from anabranch.language.conditions import condition, conjunction
from anabranch.language.errors import refuse
from anabranch.language.scopes import ItemScope, ResultScope, Scope
from anabranch.language.windows import range_length, rows_length
from anabranch.language.wxquery import syntax as w
from anabranch.language.wxquery.conditions import lowered, present, walked
from anabranch.language.wxquery.construct import constructed, further, markup
from anabranch.language.wxquery.construction import Construction, Node, columns_in
from anabranch.language.wxquery.names import Contents, Names, Result, Tree, contents, shown
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream
from anabranch.model.window import Window
from anabranch.predicates.terms import TRUE, Term


def bind_wxquery(query: w.Query, stream: Stream) -> tuple[Select | Aggregate, Construction]:
    first, scope = query.main.clauses[0], ItemScope(query.text, stream)
    assert isinstance(first, w.For)  # or the query would have no stream
    names, conditions = _items(first, stream)
    spec: Select | Aggregate
    if first.window is None:
        spec, row = _select(query.main, names, conditions, scope)
    else:
        spec, row = _aggregate(query.main, first.window, names, conditions, scope)
    before, after = markup(query.body)
    return spec, Construction(before, row, after)


def _items(clause: w.For, stream: Stream) -> tuple[Names, list[s.Expression]]:
    """The variable of the first for, and the conditions on the way to it."""
    steps = [step for step in clause.path.steps if step.name != "."]
    if len(steps) < 2:
        raise refuse(
            f'the path to the items names the root and the item: stream("{stream.name}")/root/item',
            clause.path.place,
        )
    root, item, *rest = steps
    names = Names(stream, item.name, {})
    if root.condition is not None:
        raise refuse("a condition on the root of a stream; it belongs to the item, the next step", root.place)
    if any(names.below(item.name)):
        raise refuse(
            f"{item.name} is a part of the items of {stream.name}; the path to them has two steps that the "
            f'query chooses, the root and the item: stream("{stream.name}")/root/item',
            item.place,
        )
    conditions = [] if item.condition is None else [lowered(item.condition, names, "")]
    path, more = walked(tuple(rest), "", names, first=False)
    conditions += [*more, *([present(path, names, clause.path.place)] if path else [])]
    meaning = Tree(path) if clause.window is None else Contents(path)
    return names.having(clause.variable, meaning), conditions


def _bound(conditions: Sequence[s.Expression], scope: Scope, stream: Stream) -> Term:
    if not conditions:
        return TRUE
    term = conjunction(condition(each, scope) for each in conditions)
    return possible(term, stream, s.span(conditions[0].place, conditions[-1].place))


# --- select ---


def _select(
    main: w.Flwr, names: Names, conditions: list[s.Expression], scope: ItemScope
) -> tuple[Select, Node]:
    names, more = further(main.clauses[1:], names)
    conditions = [*conditions, *more]
    if main.where is not None:
        conditions.append(lowered(main.where, names, None))
    condition_ = _bound(conditions, scope, scope.stream)
    row = constructed(main.result, names, scope)
    # A result without columns cannot be stored: where nothing of an item is shown, its first column is kept.
    columns = dict.fromkeys(columns_in(row)) or [scope.stream.columns[0].name]
    return Select(tuple(Output(column, column) for column in columns), condition_), row


# --- aggregate ---


def _aggregate(
    main: w.Flwr, window: w.Window, names: Names, conditions: list[s.Expression], scope: ItemScope
) -> tuple[Aggregate, Node]:
    bound_window = _window(window, names, scope)
    aggregations: list[Aggregation] = []
    types: list[ColumnType] = []
    for clause in main.clauses[1:]:
        if isinstance(clause, w.For):
            raise contents(clause.path)
        aggregation, type_ = _aggregation(clause, names, scope)
        if aggregation.name in [other.name for other in aggregations]:
            raise refuse(f"${clause.variable.name} is bound twice; rename one", clause.variable.place)
        aggregations.append(aggregation)
        types.append(type_)
        names = names.having(clause.variable, Result(Column(aggregation.name, type_)))
    if not aggregations:
        raise refuse(
            "a window without a let: windows give aggregates only, such as let $a := avg($w/en)", window.place
        )
    results = ResultScope(scope.text, aggregations, types, scope.stream)
    having = [] if main.where is None else [lowered(main.where, names, None)]
    spec = Aggregate(
        tuple(aggregations),
        bound_window,
        _bound(conditions, scope, scope.stream),
        _bound(having, results, results.pseudo_stream()),
    )
    return spec, constructed(main.result, names, results)


def _window(window: w.Window, names: Names, scope: ItemScope) -> Window:
    stream, step = scope.stream, window.step or window.size
    lengths = [s.Length(number, None, number.place) for number in (window.size, step)]
    whats = ("the size of a window", "the step of a window")
    if window.reference is None:
        size, step_ = (
            rows_length(length, scope.text, what) for length, what in zip(lengths, whats, strict=True)
        )
        return Window("rows", size, step_)
    if names.leaf("", window.reference).name != stream.time:
        time = f"{shown(stream.time)}" if stream.time else "none; declare it to have windows in time"
        raise refuse(
            f"windows in time follow the time that stream {stream.name} declares: {time}",
            window.reference.place,
        )
    size, step_ = (
        range_length(length, stream, scope.text, what) for length, what in zip(lengths, whats, strict=True)
    )
    return Window("range", size, step_)


def _aggregation(clause: w.Let, names: Names, scope: ItemScope) -> tuple[Aggregation, ColumnType]:
    path, variable = clause.path, clause.variable
    for step in path.steps:
        if step.condition is not None:
            raise refuse(
                "a condition inside an aggregate; it belongs into the path of the for, before the window",
                step.place,
            )
    meaning = names.start(path, None)
    if not isinstance(meaning, Contents):
        raise refuse("an aggregate of something that is no window; it takes the for's variable", path.place)
    whole = _is_whole(path, names)
    if whole and clause.function.text != "count":
        raise refuse(f"{clause.function.text} of whole items; name the element, such as $w/en", path.place)
    argument = None if whole else s.Name(names.leaf(meaning.path, path).name, path.place)
    call = s.Call(clause.function.text, argument, s.span(clause.function.place, path.place))
    column = None if argument is None else argument.text
    named = variable.name == plain_variable(call.function, column)
    if variable.name in WINDOW_COLUMNS:
        raise refuse(
            f"the results have a column {variable.name} already; rename the variable", variable.place
        )
    alias = None if named else s.Name(variable.name, variable.place)
    return bind_aggregation(s.Item(call, alias, clause.place), scope)


def _is_whole(path: w.Path, names: Names) -> bool:
    """`$w`, `$w/.` or `$w/photon`"""
    steps = [step for step in path.steps if step.name != "."]
    return not steps or (len(steps) == 1 and steps[0].name == names.item)


def plain_variable(function: str, column: str | None) -> str:
    """The variable whose aggregate is called in the results as SQL does it without AS: $avg.en, avg(en)."""
    return f"{function}.{'items' if column is None else column}"
