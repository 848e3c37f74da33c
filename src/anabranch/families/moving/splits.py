"""Hot regions split while the stream runs (zones/balance): a zone that has far more to do than the others
gives a part of its plane to the one that has least to do.

What it had to do are the moves it took and the rows it told. In the batch in which all zones go by a new
table of splits, objects leave one server and enter the other in a tick that is over, so that what they leave
and what they enter cancels out (handover.py). Splits decide where work is done, never what comes out.
"""

from __future__ import annotations

from anabranch.kernels.regions import Layout
from anabranch.zones.columns import Array
from anabranch.zones.state import State

_SPLITS = "splits"


def layout_now(state: State, layout: Layout) -> Layout:
    """The layout with the splits that this zone has heard of."""
    held = state.get(_SPLITS)
    return layout if held is None else layout._replace(splits=held["table"])


def adopt(state: State, table: Array) -> None:
    state.put(_SPLITS, {"table": table})
