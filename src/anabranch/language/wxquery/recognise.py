"""Which of the two languages a query is in, by how it begins.

Comes in: a text. Goes out: a bool. Never: a parser, so that commands that only ask this start without one.
"""

from __future__ import annotations

import re

#: SQL begins with none of these, comments aside.
_BEGINS = re.compile(
    r"""\s*(?:--[^\n]*\n\s*)*
        (?: [<$] | /(?!\*) | \((?!\s*(?:select|detect)\b)
          | for\b | let\s*\$ | (?:if|stream|doc|collection)\s*\( )""",
    re.IGNORECASE | re.VERBOSE,
)


def is_wxquery(text: str) -> bool:
    return _BEGINS.match(text) is not None
