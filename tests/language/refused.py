"""Bad queries, written with the span that the error must point at: `SELECT [[enn]] FROM photons`."""

from __future__ import annotations

import pytest

from anabranch.language.bind import compile_query
from anabranch.model.errors import QueryError
from tests.language.streams import STREAMS


def refused(marked: str, *fragments: str) -> None:
    """Compiling must fail, point at the marked span and say every fragment; `[[]]` marks the end."""
    start = marked.index("[[")
    length = max(1, marked.index("]]") - start - 2)
    text = marked.replace("[[", "").replace("]]", "")
    with pytest.raises(QueryError) as caught:
        compile_query(text, STREAMS)
    error = caught.value
    for fragment in fragments:
        assert fragment in error.message
    assert (error.offset, error.length) == (start, length), str(error)
    assert error.text == text
    assert error.exit_status == 2
