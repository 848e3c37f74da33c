"""What can be chosen by name, for commands that must not load the optimizer to show their options."""

from __future__ import annotations

from enum import StrEnum


class Strategy(StrEnum):
    """Where queries are evaluated: `optimizer` says what each does."""

    DATA_SHIPPING = "data-shipping"
    QUERY_SHIPPING = "query-shipping"
    STREAM_SHARING = "stream-sharing"


class Bypass(StrEnum):
    """How full links and sites are gone around: see `routes`."""

    REDUCED = "reduced"
    WEIGHTED = "weighted"
    NONE = "none"
