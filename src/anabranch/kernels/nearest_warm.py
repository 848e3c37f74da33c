"""Runs the kernels of `nearest` once, with the types they have in earnest: moments are int64 or float64."""

from __future__ import annotations

import numpy as np

from anabranch.kernels.boxes import BLOCK, boxes_of
from anabranch.kernels.grid import cover
from anabranch.kernels.meeting import meet, nobody_met
from anabranch.kernels.nearest_arrays import RAPF, Items, Queries, Stock
from anabranch.kernels.places import places_of
from anabranch.kernels.rapf import run


def warm_nearest() -> None:
    place = np.zeros((1, 2))
    boxes = boxes_of(place, 0, BLOCK)
    for moment, never in ((np.int64, 2**62), (np.float64, np.inf)):
        one, now = np.ones(1, np.int64), np.zeros(1, moment)
        queries = Queries(
            point=np.zeros((1, 1)),
            k=one,
            need=one,
            target=2 * one,
            upper=4 * one,
            size=now + 1,
            recent=now + 1,
            step=now + 1,
            start=0 * one,
            stop=5 * one,
            bound=now,
            mask=-one,
            method=np.full(1, RAPF, np.int8),
            counted=np.zeros(1, np.bool_),
            chances=-one,
            limits=np.empty((0, 0), np.int64),
        )
        empty = np.empty(0, np.int64)
        stock = Stock(
            first=np.zeros(2, np.int64),
            dist=np.empty(0),
            number=empty,
            due=np.empty(0, moment),
            radius=np.full(1, np.inf),
            limit=4 * one,
            seen=0 * one,
            pace=np.zeros(1),
            known=np.zeros(1),
        )
        clock = np.zeros(2, moment)
        items = Items(place, np.arange(2), clock, np.empty((0, 2), np.bool_), 0, empty, clock[0].item(), 0)
        run(queries, stock, items, boxes, nobody_met(), moment(never).item(), True)
    meet(boxes, np.ones(2), place, boxes, 0, 8)
    edges = np.zeros(1)
    cover(np.zeros(4, np.uint8), np.zeros((1, 1)), np.ones(1), edges, edges + 1, 1)
    places_of(np.arange(2), np.arange(2))
