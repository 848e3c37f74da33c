"""Streams that the queries of these tests are asked of."""

from __future__ import annotations

from typing import Any

from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream


def stream(name: str, columns: str, **settings: Any) -> Stream:
    """`stream("s", "a:int b:float")`"""
    pairs = (pair.rsplit(":", 1) for pair in columns.split())
    return Stream(name, tuple(Column(path, ColumnType(type_)) for path, type_ in pairs), **settings)


PHOTONS = stream(
    "photons", "coord.cel.ra:float coord.cel.dec:float en:float phc:int det_time:int", time="det_time"
)
TRADES = stream(
    "trades",
    "symbol:string venue:string price:float volume:int low:float high:float "
    "ts:timestamp seen:timestamp ok:bool late:bool",
    time="ts",
)
SENSORS = stream(
    "sensors",
    "a:float b:float c:float d:int at:timestamp name:string",
    time="at",
    position=("a", "b", "c"),
)
TARGETS = stream("targets", "x:float y:float z:float kind:string", position=("x", "y"))
UNITS = stream(
    "units", "id:string x:float y:float side:string t:int", time="t", object="id", position=("x", "y")
)
POLICE = stream(
    "police", "car:int lon:float lat:float t:timestamp", time="t", object="car", position=("lon", "lat")
)
BARE = stream("bare", "v:int")
WIDE = stream("wide", " ".join(f"c{i}:float" for i in range(20)))

#: Columns called like keywords: those that may stand without quotes, and the reserved ones.
FREE = """
    around at based box by clusters count day days density detect emit end for hour hours items max
    min minute minutes nearest object objects of range rows second seconds step sum time timestamp
    to using windows with within
"""
RESERVED = "select from where window having as and or not in between true false"
WORDS = stream(
    "words",
    " ".join(f"{word}:int" for word in (FREE + RESERVED).split()),
    time="time",
    position=("count", "min"),
)

STREAMS = {each.name: each for each in (PHOTONS, TRADES, SENSORS, TARGETS, UNITS, POLICE, BARE, WIDE, WORDS)}
