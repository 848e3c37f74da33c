"""One hierarchy of errors and one exit path.

Every error says what happened, where, and what would be right. The command line turns an error into its
exit status: 2 when the job or a query is wrong (said before anything runs), 1 when it failed while running.
"""

from __future__ import annotations


class AnabranchError(Exception):
    """What every error of ours is."""

    exit_status = 1


class JobError(AnabranchError):
    """The job file, the command line or the catalog says something that cannot be done."""

    exit_status = 2


class QueryError(JobError):
    """A query that is refused when it is registered; it never reaches the stream.

    `offset` is the offset of the first wrong character in `text`. Shown as

        unknown column 'enn' in stream photons; did you mean 'en'?
          SELECT enn FROM photons
                 ^^^
    """

    def __init__(self, message: str, text: str = "", offset: int | None = None, length: int = 1) -> None:
        super().__init__(message)
        self.message, self.text, self.offset, self.length = message, text, offset, length

    def __str__(self) -> str:
        if self.offset is None or not self.text:
            return self.message
        offset = min(max(self.offset, 0), len(self.text))
        start = self.text.rfind("\n", 0, offset) + 1
        stop = self.text.find("\n", offset)
        line = self.text[start : stop if stop >= 0 else len(self.text)]
        width = max(1, min(self.length, len(line) - (offset - start)))
        where = f" (line {self.text.count(chr(10), 0, offset) + 1})" if "\n" in self.text else ""
        return f"{self.message}{where}\n  {line}\n  {' ' * (offset - start)}{'^' * width}"


class TooManyError(JobError):
    """It would be right, but there is no room for it under a limit."""


class NameTaken(JobError):
    """An active subscription has the name already."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class FormatError(AnabranchError):
    """Bytes that are not ours, or that another version wrote and this one cannot read."""


class RunError(AnabranchError):
    """The job was right and failed while it ran: a source vanished, the disk is full."""
