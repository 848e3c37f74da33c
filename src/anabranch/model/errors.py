"""One hierarchy of errors and one exit path.

Every error says what happened, where, and what would be right. The command line turns an error into its
exit status: 2 when the job or a query is wrong (said before anything runs), 1 when it failed while running.
"""

from __future__ import annotations

from collections.abc import Sequence


class AnabranchError(Exception):
    """What every error of ours is."""

    exit_status = 1


class JobError(AnabranchError):
    """The job file, the command line or the catalog says something that cannot be done."""

    exit_status = 2


class QueryError(JobError):
    """A query that is refused when it is registered; it never reaches the stream.

    `offset` is the offset of the first wrong character in `text`; `advice` comes below the text. Shown as

        unknown column 'enn' in stream photons; did you mean 'en'?
          SELECT enn FROM photons
                 ^^^
    """

    def __init__(
        self, message: str, text: str = "", offset: int | None = None, length: int = 1, advice: str = ""
    ) -> None:
        super().__init__(message)
        self.message, self.text, self.offset, self.length = message, text, offset, length
        self.advice = advice

    def __str__(self) -> str:
        if self.offset is None or not self.text:
            return f"{self.message}; {self.advice}" if self.advice else self.message
        offset = min(max(self.offset, 0), len(self.text))
        start = self.text.rfind("\n", 0, offset) + 1
        stop = self.text.find("\n", offset)
        line = self.text[start : stop if stop >= 0 else len(self.text)]
        width = max(1, min(self.length, len(line) - (offset - start)))
        where = f" (line {self.text.count(chr(10), 0, offset) + 1})" if "\n" in self.text else ""
        line, indent = _near(line, offset - start)
        marks = f"{' ' * indent}{'^' * min(width, len(line) - indent + 1)}"
        return "\n  ".join(filter(None, (f"{self.message}{where}", line, marks, self.advice)))


#: A longer line is shown only around the place that is meant.
MAX_LINE = 200


def _near(line: str, offset: int) -> tuple[str, int]:
    """Returns what is shown of a line, and where the place is in it."""
    if len(line) <= MAX_LINE:
        return line, offset
    start = max(0, min(offset - MAX_LINE // 4, len(line) - MAX_LINE))
    before, after = "..." if start else "", "..." if start + MAX_LINE < len(line) else ""
    return f"{before}{line[start : start + MAX_LINE]}{after}", offset - start + len(before)


class TooManyError(JobError):
    """It would be right, but there is no room for it under a limit."""


class NameTaken(JobError):
    """An active subscription of some owner has the name already. The message quotes its query."""

    def __init__(self, name: str, owner: str | None, message: str) -> None:
        super().__init__(message)
        self.name, self.owner = name, owner


class FormatError(AnabranchError):
    """Bytes that are not ours, or that another version wrote and this one cannot read."""


class RunError(AnabranchError):
    """The job was right and failed while it ran: a source vanished, the disk is full."""


class SubscriptionError(RunError):
    """A stage failed because of these subscriptions."""

    def __init__(self, message: str, subscriptions: Sequence[str]) -> None:
        super().__init__(message)
        self.subscriptions = tuple(subscriptions)
