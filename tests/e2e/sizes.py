"""Jobs of any size for the browser tests: 1, 300 or 10,000 subscriptions.

    job = LocalJob(folder, generated())
    subscribe(job, 10_000)          # a second or two

Parsing 10,000 queries would take longer than the tests. So one query of each form is parsed, and the others
are copies of it with other numbers, in the text and in what it was parsed to.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from anabranch.catalog.entries import NewSubscription
from anabranch.catalog.registration import bind_subscription
from anabranch.cli.tour import tour_queries
from anabranch.model.subscription import Subscription
from tests.e2e.engine import LocalJob

#: Form -> the query that is parsed. Its numbers are replaced.
FORMS = {
    "sky": "SELECT det_time, ra, dec, en FROM photons WHERE ra BETWEEN 101.125 AND 102.125 "
    "AND dec BETWEEN 41.125 AND 42.125 AND en >= 0.515625",
    "point": "SELECT NEAREST 3 TO (101.125, 41.125) BY (ra, dec) FROM photons WINDOW RANGE 4",
    "ring": "SELECT OBJECTS WITHIN 5 OF (2.125, 48.125) FROM flights",
}
#: Positions for the map, and clusters.
FIXED = {
    "map-flights": "SELECT icao24, longitude, latitude FROM flights",
    "map-targets": "SELECT latitude, longitude FROM targets",
    "convoys": "SELECT CLUSTERS WITHIN 0.02 MIN 8 BY (latitude, longitude) FROM targets "
    "WINDOW ROWS 2000 STEP 500",
}


def subscribe(job: LocalJob, count: int) -> None:
    """A single selection; or some of every kind, most of them windows onto the sky, in total `count`."""
    if count == 1:
        chosen = {"hot": "SELECT det_time, en FROM photons WHERE en > 2"}
    else:
        tour = {name: query for name, query in tour_queries(0).items() if "sensors" not in query}
        chosen = tour | FIXED
    new = [bind_subscription(Subscription(name, query), job.streams) for name, query in chosen.items()]
    rest = count - len(new)
    if rest:
        points, rings = rest // 25, rest // 25
        new += _copies(job, "point", points)
        new += _copies(job, "ring", rings)
        new += _copies(job, "sky", rest - points - rings)
    job.catalog.subscribe_many(new)


def _copies(job: LocalJob, form: str, count: int) -> Iterator[NewSubscription]:
    template = bind_subscription(Subscription(form, FORMS[form]), job.streams)
    spec = {key: value for key, value in template.spec.items() if key != "normal"}  # that of the template
    text = json.dumps([template.query, spec])
    rng = np.random.default_rng(3)
    for number in range(count):
        (ra, dec), width = rng.uniform((0, -80), (350, 70)), rng.uniform(2, 10)
        values = {
            "101.125": ra,
            "102.125": ra + width,
            "41.125": dec,
            "42.125": dec + width,
            "0.515625": rng.uniform(0.1, 1),
            "2.125": rng.uniform(1.2, 3.6),
            "48.125": rng.uniform(47.9, 49.8),
        }
        copy = text
        for old in sorted(values, key=len, reverse=True):  # "2.125" is a part of "102.125"
            copy = copy.replace(old, f"{values[old]:.2f}")
        query, spec = json.loads(copy)
        yield replace(template, name=f"{form}_{number:04d}", query=query, spec=spec)
