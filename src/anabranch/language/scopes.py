"""What a name can stand for: a column of the stream in WHERE, an aggregate in HAVING, nothing in a constant.

Comes in: names of the syntax tree. Goes out: columns and their types, or a QueryError with what exists.
Never: a condition.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from anabranch.families.filters.computed_columns import result_type, widened
from anabranch.families.filters.spec import HIDDEN, Aggregation, Function
from anabranch.language.errors import refuse, short, unknown
from anabranch.language.numbers import multiply, stored
from anabranch.language.syntax import Call, Expression, Name, Number, Signed, Span, String, Truth
from anabranch.model.columns import Column, ColumnType
from anabranch.model.errors import JobError, QueryError
from anabranch.model.operators import Made, Operator, Read
from anabranch.model.stream import Stream
from anabranch.predicates.work import Work

#: How a type is called in an error.
TYPE_WORDS = {
    ColumnType.INT: "a number",
    ColumnType.FLOAT: "a number",
    ColumnType.STRING: "a string",
    ColumnType.BOOL: "true or false",
    ColumnType.TIMESTAMP: "a timestamp",
}

#: What is probably meant where a keyword that begins a kind of query is read as a column.
_KINDS = {
    "NEAREST": "NEAREST 10 TO (0.1, 0.4)",
    "CLUSTERS": "CLUSTERS WITHIN 0.01 MIN 10",
    "OBJECTS": "OBJECTS WITHIN 10 OF OBJECT 'f'",
}

FUNCTIONS = tuple(function.value for function in Function)


class Scope(ABC):
    """`text` is the query's, to show what an error is about; `work` is what may be spent on the query."""

    def __init__(self, text: str, work: Work | None = None) -> None:
        self.text = text
        self.work = work or Work()

    def shown(self, span: Span) -> str:
        return short(self.text[span[0] : span[0] + span[1]])

    @abstractmethod
    def column(self, name: Name) -> Column: ...

    @abstractmethod
    def call(self, call: Call) -> Column: ...


class ItemScope(Scope):
    """The columns of a stream, and those that its operators make where a query calls them: `made`, each
    behind those that it reads. `stream` has both.
    """

    def __init__(self, text: str, stream: Stream, work: Work | None = None) -> None:
        super().__init__(text, work)
        self.stream = stream
        self.made: dict[str, Made] = {}
        self.called: Span | None = None  # where an operator is called first
        self._columns: Mapping[str, Column] = {column.name: column for column in stream.columns}
        self._operators = {operator.name: operator for operator in stream.operators}

    def column(self, name: Name) -> Column:
        column = self._columns.get(name.text)
        if column is None:
            raise unknown_column(name, self._columns, f"in stream {self.stream.name}")
        return column

    @property
    def given(self) -> tuple[Column, ...]:
        """The stream's own columns."""
        return tuple(self._columns.values())

    def is_operator(self, function: str) -> bool:
        return function in self._operators

    def call(self, call: Call) -> Column:
        if call.function in self._operators:
            return self._made(call, self._operators[call.function])
        if call.function not in FUNCTIONS:
            raise unknown_function(call, self._operators)
        raise refuse(
            f"{self.shown(call.span)} is an aggregate; conditions on aggregates belong in HAVING", call.span
        )

    def _made(self, call: Call, operator: Operator) -> Column:
        if not call.arguments:
            raise refuse(f"{call.function}(*) has no meaning; an operator takes columns", call.span)
        arguments = tuple(map(self._argument, call.arguments))
        if not any(isinstance(each, Read) for each in arguments):
            raise refuse(f"{self.shown(call.span)} reads no column; it is the same for every item", call.span)
        try:
            made = Made(operator.name, arguments, result_type(operator, arguments, self.stream))
        except JobError as error:
            raise refuse(str(error), call.span) from error
        if made.name in self._columns:
            raise refuse(f"the stream has a column that is called {made.name!r} itself", call.span)
        self.called = self.called or call.span
        if made.name not in self.made:
            self.made[made.name] = made
            self.stream = widened(self.stream, [made])
        return made.column

    def _argument(self, expression: Expression) -> Read | int | float | str | bool:
        match expression:
            case Name():
                return Read(self.column(expression).name)
            case Call():
                return Read(self.call(expression).name)
            case Number(value=value, span=span):
                return stored(value, span)
            case Signed(sign=sign, value=Number(value=value), span=span):
                return stored(multiply(sign, value, span), span)
            case String(value=value) | Truth(value=value):
                return value
        raise refuse(
            f"{self.shown(expression.span)}: an operator takes columns, constants, and what operators make "
            "of them",
            expression.span,
        )


class ResultScope(Scope):
    """The aggregates of a query, by name or as they are written, and `items`. `bind` gives the aggregates
    that a condition asks for beyond those of the select list; they are added to `aggregations`.
    """

    def __init__(
        self,
        text: str,
        aggregations: Sequence[Aggregation],
        types: Sequence[ColumnType],
        stream: Stream,
        bind: Callable[[Call], tuple[Aggregation, ColumnType]],
        work: Work | None = None,
    ) -> None:
        super().__init__(text, work)
        self.stream = stream
        self.aggregations = list(aggregations)
        self._bind = bind
        self._columns = {a.name: Column(a.name, type_) for a, type_ in zip(aggregations, types, strict=True)}
        self._columns["items"] = Column("items", ColumnType.INT)

    def pseudo_stream(self) -> Stream:
        """The results as a stream, to ask whether a condition on them can be true."""
        return Stream(f"the results of {self.stream.name}", tuple(self._columns.values()))

    def column(self, name: Name) -> Column:
        column = self._columns.get(name.text)
        if column is not None:
            return column
        if self.stream.column(name.text) is not None:
            there = ", ".join(self._columns)
            raise refuse(
                f"{name.text} is a column of the items; HAVING takes the aggregates: {there}", name.span
            )
        raise unknown_column(name, self._columns, "in the results")

    def call(self, call: Call) -> Column:
        wanted, type_ = self._bind(call)
        key, name = (wanted.function, wanted.column), wanted.name
        same = [a.name for a in self.aggregations if (a.function, a.column) == key]
        if same:
            return self._columns[name if name in same else same[0]]
        hidden = replace(wanted, name=HIDDEN + name)
        self.aggregations.append(hidden)
        return self._columns.setdefault(hidden.name, Column(hidden.name, type_))


class ConstantScope(Scope):
    """No columns: where a number is needed."""

    def column(self, name: Name) -> Column:
        raise refuse(f"a number is needed here; {short(name.text)} is a name", name.span)

    def call(self, call: Call) -> Column:
        raise refuse(f"a number is needed here; {self.shown(call.span)} is an aggregate", call.span)


def default_name(function: str, column: str | None) -> str:
    """How an aggregate without AS is called in the results: `max(price)`, `count(*)`."""
    return f"{function}({'*' if column is None else column})"


def unknown_column(name: Name, columns: Mapping[str, Column], where: str) -> QueryError:
    hint = ""
    if name.text.lower() in ("nan", "inf", "infinity"):
        hint = "; constants are finite numbers"
    elif name.text.upper() in _KINDS:
        hint = f"; as a kind of query it goes on: {_KINDS[name.text.upper()]}"
    elif name.quoted:
        hint = f"; a string takes single quotes: '{short(name.text)}'"
    return unknown("column", name.text, columns, name.span, where, hint)


def unknown_function(call: Call, operators: Iterable[str] = ()) -> QueryError:
    span = (call.span[0], len(call.function))
    return unknown("function", call.function, (*FUNCTIONS, *operators), span)
