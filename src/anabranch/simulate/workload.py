"""Queries for the scenarios: the paper's four, and random ones from its templates.

Random queries draw their constants from the small sets below: this is what makes them shareable to a degree
(StreamGlobe 6).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anabranch.planning.scenario import Question
from anabranch.simulate.photons import DEC, EN, RA, TIME, Photons

#: How far a region reaches from the centre in degrees, ra and dec.
REACHES = ((9.0, 4.5), (9.0, 2.5), (5.0, 4.5), (5.0, 2.5), (2.5, 1.5))
SHIFTS = (0.0, 2.0)
ENERGIES = (None, 1.3)
WINDOWS = ((20, 10), (40, 20), (60, 20), (60, 40), (120, 40), (120, 120))
FUNCTIONS = ("avg", "sum", "min", "max", "count")
#: Of a hundred queries.
SELECTIONS, PROJECTIONS = 50, 20


def example_queries(photons: Photons, sites: Sequence[str]) -> list[Question]:
    """Returns queries 1 to 4 (figures 3, 4, 7, 8); on other photons, the same regions around their centre."""
    ra, dec = photons.centre
    name = photons.stream.name
    vela = _region(ra - 9, ra + 9, dec - 4.5, dec + 4.5)
    rxj = _region(ra + 1.5, ra + 6.5, dec - 3.5, dec - 0.5)
    columns = _columns(photons, RA, DEC, "phc", "obs_id", EN, TIME)
    queries = [
        f"SELECT {columns} FROM {name} WHERE {vela}",
        f"SELECT {_columns(photons, RA, DEC, EN, TIME)} FROM {name} WHERE {EN} >= 1.3 AND {rxj}",
        f"SELECT avg({EN}) AS avg_en FROM {name} WHERE {vela} WINDOW RANGE 20 STEP 10",
        f"SELECT avg({EN}) AS avg_en FROM {name} WHERE {vela} WINDOW RANGE 60 STEP 40 HAVING avg_en >= 1.3",
    ]
    return [
        Question(f"q{number}", site, query)
        for number, (site, query) in enumerate(zip(sites, queries, strict=True), 1)
    ]


def random_queries(
    streams: Sequence[Photons], sites: Sequence[str], count: int, seed: int = 0
) -> list[Question]:
    random = np.random.default_rng(seed)
    out = []
    for number in range(1, count + 1):
        photons = streams[int(random.integers(len(streams)))]
        site = sites[int(random.integers(len(sites)))]
        out.append(Question(f"q{number}", site, _random_query(photons, random)))
    return out


def _random_query(photons: Photons, random: np.random.Generator) -> str:
    name, drawn = photons.stream.name, random.integers(100)
    energy = ENERGIES[random.integers(len(ENERGIES))]
    hot = [f"{EN} >= {energy}"] if energy is not None else []
    if SELECTIONS <= drawn < SELECTIONS + PROJECTIONS:
        chosen = ((RA, DEC, EN), (EN, TIME), (RA, DEC, "phc", "obs_id", EN, TIME))[random.integers(3)]
        where = f" WHERE {hot[0]}" if hot else ""
        return f"SELECT {_columns(photons, *chosen)} FROM {name}{where}"
    ra, dec = photons.centre
    reach_ra, reach_dec = REACHES[random.integers(len(REACHES))]
    ra += SHIFTS[random.integers(len(SHIFTS))]
    region = _region(ra - reach_ra, ra + reach_ra, dec - reach_dec, dec + reach_dec)
    if drawn < SELECTIONS:
        columns = (RA, DEC, "phc", "obs_id", EN, TIME) if random.integers(2) else (RA, DEC, EN, TIME)
        return f"SELECT {_columns(photons, *columns)} FROM {name} WHERE {' AND '.join([region, *hot])}"
    size, step = WINDOWS[random.integers(len(WINDOWS))]
    function = FUNCTIONS[random.integers(len(FUNCTIONS))]
    return f"SELECT {function}({EN}) AS value FROM {name} WHERE {region} WINDOW RANGE {size} STEP {step}"


def _region(left: float, right: float, low: float, high: float) -> str:
    return f"{RA} BETWEEN {left} AND {right} AND {DEC} BETWEEN {low} AND {high}"


def _columns(photons: Photons, *wanted: str) -> str:
    """Returns those of the wanted columns that the photons have."""
    there = {column.name for column in photons.stream.columns}
    return ", ".join(column for column in wanted if column in there)
