"""The parts of a WXQuery: one `for` over a stream each, with all that is about this stream alone.

Comes in: the clause, then more clauses and conditions one by one. Goes out: a Select or an Aggregate.
Never: a look at another part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from anabranch.families.filters.spec import Aggregate, Aggregation, Output, Select
from anabranch.language import syntax as s
from anabranch.language.bind_filters import WINDOW_COLUMNS, Condition, bind_aggregation, possible
from anabranch.language.conditions import condition, conjunction
from anabranch.language.errors import refuse
from anabranch.language.scopes import ItemScope
from anabranch.language.windows import range_window, rows_window
from anabranch.language.wxquery import syntax as w
from anabranch.language.wxquery.conditions import lowered, present, walked
from anabranch.language.wxquery.construct import further
from anabranch.language.wxquery.names import Contents, Names, Result, Tree, contents, shown
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream
from anabranch.model.window import Window

Spec = Select | Aggregate


@dataclass
class Part:
    """A `for` over a stream; `conditions` are on its items, `having` on its aggregates."""

    clause: w.For
    scope: ItemScope
    names: Names
    conditions: list[s.Expression]
    window: Window | None = None
    aggregations: list[Aggregation] = field(default_factory=list)
    results: list[Column] = field(default_factory=list)
    having: list[s.Expression] = field(default_factory=list)

    @staticmethod
    def of(clause: w.For, scope: ItemScope) -> Part:
        part = Part(clause, scope, *_items(clause, scope.stream))
        if clause.window is not None:
            part.window = _window(clause.window, part.names, scope)
        return part

    def take(self, clause: w.For | w.Let) -> None:
        """A clause after the part's own: a for over elements of its items, or a let over its window."""
        if self.window is None:
            self.names, conditions = further((clause,), self.names)
            self.conditions += conditions
            return
        if isinstance(clause, w.For):
            self.names.start(clause.path, None)
            raise contents(clause.path)
        aggregation, type_ = _aggregation(clause, self.names, self.scope)
        if aggregation.name in [other.name for other in self.aggregations]:
            raise refuse(f"${clause.variable.name} is bound twice; rename one", clause.variable.span)
        self.aggregations.append(aggregation)
        self.results.append(Column(aggregation.name, type_))
        self.names = self.names.having(clause.variable, Result(self.results[-1]))

    @property
    def gives_contents(self) -> bool:
        """Whether its windows are returned as they are, because no let aggregates them."""
        return self.window is not None and not self.aggregations

    def check_contents(self, alone: bool) -> None:
        """Called when all clauses are taken; `alone` if there is no other part."""
        if not self.gives_contents or self.clause.window is None or self.window is None:
            return
        if not alone or not self.window.by_rows:
            raise refuse(
                "a window without a let: the contents of a window can be returned where it counts items "
                "(|count 20|) and the query goes over one stream; else windows give aggregates, such as "
                "let $a := avg($w/en)",
                self.clause.window.span,
            )

    def check(self, asked: w.Condition) -> None:
        """A condition of `where`."""
        (self.conditions if self.window is None else self.having).append(lowered(asked, self.names, None))

    @property
    def columns(self) -> Sequence[Column]:
        """What its results can show."""
        items = self.window is None or self.gives_contents
        return self.scope.stream.columns if items else self.results

    def spec(self, read: list[str]) -> Spec:
        """`read` are the columns that something is made of."""
        selected = _possible(self.conditions, self.scope)
        if self.window is None or self.gives_contents:
            # A result without columns cannot be stored: where nothing of an item is shown, its first is kept.
            columns = dict.fromkeys(read) or [self.columns[0].name]
            outputs = tuple(Output(column, column) for column in columns)
            return Select(outputs, selected.term, normal=selected.normal)
        results = ItemScope(self.scope.text, Stream("the results", tuple(self.results)), self.scope.work)
        having = _possible(self.having, results).term
        return Aggregate(tuple(self.aggregations), self.window, selected.term, having, normal=selected.normal)


def _items(clause: w.For, stream: Stream) -> tuple[Names, list[s.Expression]]:
    """The variable of a for over a stream, and the conditions on the way to it."""
    steps = [step for step in clause.path.steps if step.name != "."]
    if len(steps) < 2:
        raise refuse(
            f'the path to the items names the root and the item: stream("{stream.name}")/root/item',
            clause.path.span,
        )
    root, item, *rest = steps
    names = Names(stream, {"": item.name}, {})
    if root.condition is not None:
        raise refuse("a condition on the root of a stream; it belongs to the item, the next step", root.span)
    if any(names.below(item.name)):
        raise refuse(
            f"{item.name} is a part of the items of {stream.name}; the path to them has two steps that the "
            f'query chooses, the root and the item: stream("{stream.name}")/root/item',
            item.span,
        )
    conditions = [] if item.condition is None else [lowered(item.condition, names, "")]
    path, more = walked(tuple(rest), "", names, first=False)
    conditions += [*more, *([present(path, names, clause.path.span)] if path else [])]
    meaning = Tree(path) if clause.window is None else Contents(path)
    return names.having(clause.variable, meaning), conditions


def _possible(conditions: Sequence[s.Expression], scope: ItemScope) -> Condition:
    if not conditions:
        return Condition()
    term = conjunction(condition(each, scope) for each in conditions)
    span = s.covering(conditions[0].span, conditions[-1].span)
    return possible(term, scope.stream, span, scope.work)


def _window(window: w.WindowExpression, names: Names, scope: ItemScope) -> Window:
    stream, step = scope.stream, window.step or window.size
    whats = ("the size of a window", "the step of a window")
    if window.reference is None:
        return rows_window(window.size, step, scope, whats)
    if names.leaf("", window.reference).name != stream.time:
        time = f"{shown(stream.time)}" if stream.time else "none; declare it to have windows in time"
        raise refuse(
            f"windows in time follow the time that stream {stream.name} declares: {time}",
            window.reference.span,
        )
    return range_window(window.size, step, scope, whats)


def _aggregation(clause: w.Let, names: Names, scope: ItemScope) -> tuple[Aggregation, ColumnType]:
    path, variable = clause.path, clause.variable
    for step in path.steps:
        if step.condition is not None:
            raise refuse(
                "a condition inside an aggregate; it belongs into the path of the for, before the window",
                step.span,
            )
    meaning = names.start(path, None)
    if not isinstance(meaning, Contents):
        raise refuse("an aggregate of something that is no window; it takes the for's variable", path.span)
    whole = _is_whole(path, names)
    if whole and clause.function.text != "count":
        raise refuse(f"{clause.function.text} of whole items; name the element, such as $w/en", path.span)
    argument = None if whole else s.Name(names.leaf(meaning.path, path).name, path.span)
    arguments = () if argument is None else (argument,)
    call = s.Call(clause.function.text, arguments, s.covering(clause.function.span, path.span))
    column = None if argument is None else argument.text
    named = variable.name == plain_variable(call.function, column)
    if variable.name in WINDOW_COLUMNS:
        raise refuse(f"the results have a column {variable.name} already; rename the variable", variable.span)
    alias = None if named else s.Name(variable.name, variable.span)
    return bind_aggregation(s.Item(call, alias, clause.span), scope)


def _is_whole(path: w.Path, names: Names) -> bool:
    """`$w`, `$w/.` or `$w/photon`"""
    steps = [step for step in path.steps if step.name != "."]
    return not steps or (len(steps) == 1 and steps[0].name == names.items[""])


def plain_variable(function: str, column: str | None) -> str:
    """The variable whose aggregate is called in the results as SQL does it without AS: $avg.en, avg(en)."""
    return f"{function}.{'items' if column is None else column}"
