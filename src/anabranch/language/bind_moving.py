"""Binds queries on moving objects: around a focal point, the objects or a value of them.

Comes in: the head, the clauses, the stream and the bound condition. Goes out: a Moving spec.
Never: a stream without `object`, `time` and a position of two coordinates.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pyarrow as pa

from anabranch.families.moving.spec import Box, Circle, KNearest, Moving, Shape
from anabranch.language import syntax as s
from anabranch.language.bind_points import nearest_k
from anabranch.language.clauses import Clauses
from anabranch.language.constants import not_negative, real, word_or_number
from anabranch.language.errors import counted, refuse, short
from anabranch.language.scopes import ItemScope
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream
from anabranch.predicates.terms import Term

AXES = ("x", "y")

Head = s.NearestObjects | s.Objects | s.ObjectsValue


def bind_moving(
    head: Head, stream_name: s.Name, clauses: Clauses, scope: ItemScope, condition: Term
) -> Moving:
    stream, text = scope.stream, scope.text
    _check_stream(stream, stream_name)
    shape, focal = _shape(head, scope)
    value = _value(head.value, stream, text) if isinstance(head, s.ObjectsValue) else None
    issuer = clauses.get(s.Issuer)
    return Moving(
        shape,
        _focal(focal, stream, text),
        condition,
        value,
        None if issuer is None else _object(issuer.name, stream, text),
    )


def _check_stream(stream: Stream, name: s.Name) -> None:
    missing = [setting for setting in ("object", "time") if getattr(stream, setting) is None]
    if missing:
        raise refuse(
            f"stream {stream.name} declares no {' and no '.join(missing)}; "
            "moving objects need object, time and position",
            name.span,
        )
    if len(stream.position) != 2:
        there = f"has {counted(len(stream.position), 'coordinate')}" if stream.position else "is not declared"
        raise refuse(
            f'the position of stream {stream.name} {there}; moving objects need two, such as ["x", "y"]',
            name.span,
        )


def _shape(head: Head, scope: ItemScope) -> tuple[Shape, s.Focal]:
    text = scope.text
    if isinstance(head, s.NearestObjects):
        return KNearest(nearest_k(head.k, scope)), head.focal
    area = head.area
    if isinstance(area, s.Within):
        return Circle(not_negative(area.radius, text, "the distance after WITHIN")), area.focal
    width = not_negative(area.width, text, "the width of the box")
    height = not_negative(area.height, text, "the height of the box")
    return Box(width, height), area.focal


def _focal(focal: s.Focal, stream: Stream, text: str) -> str | tuple[float, float]:
    if isinstance(focal, s.ObjectName):
        return _object(focal.name, stream, text)
    if len(focal.coordinates) != 2:
        raise refuse(
            f"the point has {counted(len(focal.coordinates), 'coordinate')}; it needs two: (x, y)",
            focal.span,
        )
    x, y = (real(coordinate, text) for coordinate in focal.coordinates)
    if stream.metric == "haversine" and abs(y) > 90:
        raise refuse(
            f"the point is beyond a pole: its latitude is {y:g}, and latitudes are from -90 to 90", focal.span
        )
    return x, y


def _object(name: s.Expression, stream: Stream, text: str) -> str:
    """An object's name, always a string: OBJECT 17, OBJECT 17.0 and OBJECT '17' are the same in a column of
    numbers.
    """
    written = str(word_or_number(name, text))
    assert stream.object is not None
    kind = stream.type_of(stream.object)
    if kind not in (ColumnType.INT, ColumnType.FLOAT):
        return written
    try:
        return _whole_number(written) if kind is ColumnType.INT else _shown_float(written)
    except ValueError:
        what = "whole numbers" if kind is ColumnType.INT else "numbers"
        raise refuse(
            f"the objects of stream {stream.name} are {what}; '{short(written)}' is not", name.span
        ) from None


def _whole_number(written: str) -> str:
    if not math.isfinite(float(written)):
        raise ValueError(written)
    value = Fraction(written)
    if value.denominator != 1:
        raise ValueError(written)
    return str(int(value))


def _shown_float(written: str) -> str:
    """A number as the names of objects in a column of floats are written."""
    return str(pa.scalar(float(written)).cast(pa.string()).as_py())


def _value(call: s.Call, stream: Stream, text: str) -> str:
    """`count`, `min(x)`, `max(x)`, `min(y)` or `max(y)`."""
    if call.function == "count" and not call.arguments:
        return "count"
    axes = dict(zip(stream.position, AXES, strict=True)) | {axis: axis for axis in AXES}
    match call.arguments:
        case (s.Name(text=name),) if call.function in ("min", "max") and name in axes:
            return f"{call.function}({axes[name]})"
    own = "".join(
        f", {name} as {axis}" for name, axis in zip(stream.position, AXES, strict=True) if name != axis
    )
    shown = short(text[call.span[0] : sum(call.span)])
    raise refuse(
        f"of moving objects there are count(*), min(x), max(x), min(y) and max(y){own}; not {shown}",
        call.span,
    )
