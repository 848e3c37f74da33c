"""The books of a stream: `rows_in = processed + late + rejected`, plus what still waits to be put in
order.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from anabranch.zones.state import State

KEY = "books"


@dataclass
class Books:
    rows_in: int = 0
    processed: int = 0
    late: int = 0
    rejected: int = 0
    number: int = 0  # of the next item

    @staticmethod
    def load(state: State) -> Books:
        arrays = state.get(KEY)
        return Books(*arrays["counts"].tolist()) if arrays is not None else Books()

    def save(self, state: State) -> None:
        state.put(KEY, {"counts": np.array(list(asdict(self).values()), np.int64)})

    def facts(self) -> dict[str, Any]:
        """What delivery writes beside each batch. `waiting` items are in, and not yet told late from timely
        by time.
        """
        waiting = self.rows_in - self.processed - self.late - self.rejected
        return {
            "rows_in": self.rows_in,
            "processed": self.processed,
            "late": self.late,
            "rejected": self.rejected,
            "waiting": waiting,
        }
