"""Gives a WXQuery its meaning: the specs that SQL would give, and what is made of the results.

Comes in: a Query and its streams. Goes out: a Select or an Aggregate for each `for` over a stream, its part,
and a Construction. Never: something of the query that is left out; what cannot be done is refused by name.

    for $p in stream("photons")/photons/photon[en > 1]/coord     the items with en > 1 that have a coord
    for $t in stream("trades")/trades/trade                      and all trades, which is another part
    where $p/cel/ra > 120 and $p/cel/ra < $t/price               the first is for $p, the second for both
    return <x> { $p/cel } </x>                                   the columns that the construction reads
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from anabranch.language.conditions import condition, conjunction
from anabranch.language.errors import refuse
from anabranch.language.scopes import ItemScope
from anabranch.language.wxquery import syntax as w
from anabranch.language.wxquery.conditions import lowered
from anabranch.language.wxquery.construct import constructed, markup
from anabranch.language.wxquery.construction import Construction, Loop, WindowContents, columns_in
from anabranch.language.wxquery.names import Contents, Meaning, Names, Result, Tree
from anabranch.language.wxquery.parse import over_streams
from anabranch.language.wxquery.parts import Part, Spec
from anabranch.model.columns import Column
from anabranch.model.stream import Stream
from anabranch.predicates.terms import columns_of
from anabranch.predicates.work import Work

Origin = w.Variable | w.StreamPath | None


def bind_wxquery(
    query: w.WXQuery, streams: Mapping[str, Stream], work: Work
) -> tuple[list[Spec], Construction]:
    """A spec for each of the query's streams, and the construction. All streams are there."""
    names = iter(query.streams)
    specs: list[Spec] = []
    loops = []
    for main in query.mains:
        clauses = list(over_streams(main))
        parts = [
            Part.of(clause, ItemScope(query.text, streams[next(names).text], work)) for clause in clauses
        ]
        found, loop = _loop(main, parts, query.text)
        specs += found
        loops.append(loop)
    return specs, Construction(markup(query.body), tuple(loops))


def _loop(main: w.Flwr, parts: list[Part], text: str) -> tuple[list[Spec], Loop]:
    begun = 0
    for clause in main.clauses:
        if begun < len(parts) and clause is parts[begun].clause:
            begun += 1
        else:
            (_alone([clause.path.origin], parts[:begun]) or parts[0]).take(clause)
    for part in parts:
        part.check_contents(alone=len(parts) == 1)
    rest = []
    for asked in [] if main.where is None else _conjuncts(main.where):
        alone = _alone(_origins(asked), parts)
        if alone is None:
            rest.append(asked)
        else:
            alone.check(asked)
    prefixes = _prefixes(parts)
    names = _together(parts, prefixes)
    scope = ItemScope(text, names.stream, parts[0].scope.work)
    window = parts[0].window if parts[0].gives_contents else None
    names = names if window is None else replace(names, contents={})
    row = constructed(main.result, names, scope)
    term = conjunction(condition(lowered(asked, names, None), scope) for asked in rest)
    made = tuple((names.contents or {}).items())
    read = [*columns_in(row), *columns_of(term), *(name for _, node in made for name in columns_in(node))]
    specs = []
    for part, prefix in zip(parts, prefixes, strict=True):
        before = f"{prefix}." if prefix else ""
        specs.append(part.spec([name.removeprefix(before) for name in read if name.startswith(before)]))
    if window is None:
        return specs, Loop(row, prefixes, term)
    return specs, Loop(row, prefixes, term, WindowContents(int(window.size), int(window.step), made))


def _alone(origins: Iterator[Origin] | list[Origin], parts: list[Part]) -> Part | None:
    """The one part that has all of these variables; the first where there are none."""
    wanted = {origin.name for origin in origins if isinstance(origin, w.Variable)}
    return next((part for part in parts if wanted <= set(part.names.variables)), None)


def _conjuncts(asked: w.Condition) -> Iterator[w.Condition]:
    match asked:
        case w.AllOf(terms=terms):
            for term in terms:
                yield from _conjuncts(term)
        case w.Parentheses(inner=w.AllOf() as inner):
            yield from _conjuncts(inner)
        case _:
            yield asked


def _origins(asked: w.Condition) -> Iterator[Origin]:
    """What the paths of a condition begin at."""
    match asked:
        case w.AllOf(terms=terms) | w.AnyOf(terms=terms):
            for term in terms:
                yield from _origins(term)
        case w.Parentheses(inner=inner):
            yield from _origins(inner)
        case w.Comparison(left=left, right=right):
            yield from _origins(left)
            yield from _origins(right)
        case w.Shifted(path=path):
            yield path.origin
        case w.Path(origin=origin):
            yield origin


# --- several parts together ---


def _prefixes(parts: list[Part]) -> tuple[str, ...]:
    """What stands before the columns of a part; nothing where it is the only one."""
    if len(parts) == 1:
        return ("",)
    prefixes: list[str] = []
    for part in parts:
        variable = part.clause.variable
        if variable.name in prefixes or "." in variable.name:
            raise refuse(f"${variable.name} is bound twice or has a dot; rename it", variable.span)
        prefixes.append(variable.name)
    return tuple(prefixes)


def _together(parts: list[Part], prefixes: tuple[str, ...]) -> Names:
    """The names of all parts, over a stream that has all their columns."""
    columns: list[Column] = []
    variables: dict[str, Meaning] = {}
    for part, prefix in zip(parts, prefixes, strict=True):
        columns += [_moved(column, prefix) for column in part.columns]
        for name, meaning in part.names.variables.items():
            match meaning:
                case Tree(path=path):
                    variables[name] = Tree(_below(prefix, path))
                case Result(column=column):
                    variables[name] = Result(_moved(column, prefix))
                case Contents():
                    variables[name] = meaning
    items = {prefix: part.names.items[""] for part, prefix in zip(parts, prefixes, strict=True)}
    name = parts[0].scope.stream.name if len(parts) == 1 else "the parts"
    return Names(Stream(name, tuple(columns)), items, variables)


def _moved(column: Column, prefix: str) -> Column:
    return Column(_below(prefix, column.name), column.type)


def _below(prefix: str, path: str) -> str:
    return ".".join(filter(None, (prefix, path)))
