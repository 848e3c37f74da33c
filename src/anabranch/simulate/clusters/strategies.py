"""The strategies by name: ours first, then those to compare it with (Chandi, section 8)."""

from __future__ import annotations

from anabranch.simulate.clusters.chandi import Chandi
from anabranch.simulate.clusters.extra_n import ExtraN, ExtraNShared
from anabranch.simulate.clusters.inc_dbscan import IncDbscan, IncDbscanShared
from anabranch.simulate.clusters.strategy import Strategy

STRATEGIES: dict[str, type[Strategy]] = {
    strategy.name: strategy for strategy in (Chandi, ExtraNShared, ExtraN, IncDbscanShared, IncDbscan)
}
