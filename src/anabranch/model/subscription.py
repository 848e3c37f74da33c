"""A subscription: a query that somebody registers under a name of their choice."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import datetime

from anabranch.model.errors import JobError
from anabranch.model.stream import Time

#: A time as a person gives it: in the units of the stream's `time`, or a date and time where that is a
#: timestamp.
Moment = Time | datetime

MAX_NAME = 200
#: What a name must be, in words that follow "it must be".
NAME = (
    f"a text of 1 to {MAX_NAME} characters without control characters, with no blank at its ends, and not a "
    "# with a number"
)
#: `#12` is subscription 12, whatever it is called.
ADDRESS = re.compile(r"#[0-9]{1,18}")

_NOT_IN_NAMES = ("Cc", "Cs", "Zl", "Zp")  # control characters, halves of characters, ends of lines


@dataclass(frozen=True, slots=True)
class Subscription:
    """It sees the items with activate < time <= cancel; without these times, all from the start.

        Subscription("vela", "SELECT ra, dec FROM photons WHERE en > 1.3", activate=1000)

    `deliver` is the address of a receiver that results are sent to, besides being kept (model/receiver.py).
    """

    name: str
    query: str
    activate: Moment | None = None
    cancel: Moment | None = None
    deliver: str | None = None


def is_name(text: str) -> bool:
    """Whether a subscription, or an owner of some, can be called so."""
    if not text or text != text.strip() or len(text) > MAX_NAME or ADDRESS.fullmatch(text):
        return False
    return not any(unicodedata.category(letter) in _NOT_IN_NAMES for letter in text)


def check_name(name: str) -> None:
    """Raises JobError if a subscription cannot be called so."""
    if not is_name(name):
        raise JobError(f"a subscription cannot be called {name!r}; its name must be {NAME}")
