"""The reference of job.toml, taken from the models that check it.

for setting in job_reference():
    print(setting.table, setting.key, setting.must_be, setting.default, setting.description)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_origin

from pydantic.fields import FieldInfo

from anabranch.job.settings import JobTables
from anabranch.model.settings_file import SettingsTable, must_of, table_of
from anabranch.model.suggestions import toml_value


@dataclass(frozen=True)
class JobSetting:
    """A key of a job file. `default` is None where the key has to be there, and empty where there is none;
    `example` is a line of TOML.
    """

    table: str
    key: str
    must_be: str
    default: str | None
    description: str
    example: str


def job_reference() -> Iterator[JobSetting]:
    """Gives every key of every table, in the order of the models."""
    yield from _settings(JobTables, "")


def _settings(model: type[SettingsTable], title: str) -> Iterator[JobSetting]:
    fields = model.fields_by_key()
    if title:
        yield from (_setting(title, key, field) for key, field in fields.items())
    for key, field in fields.items():
        table, _ = table_of(field)
        if table is not None:
            yield from _settings(table, _title(title, key, field))


def _title(above: str, key: str, field: FieldInfo) -> str:
    """Returns how a table is written: [sink], [stream.NAME], [[subscription]], [stream.NAME] source"""
    if above:
        return f"{above} {key}"
    kind = get_origin(field.annotation)
    return f"[[{key}]]" if kind is list else f"[{key}.NAME]" if kind is dict else f"[{key}]"


def _setting(table: str, key: str, field: FieldInfo) -> JobSetting:
    default = None if field.is_required() else "" if field.default is None else toml_value(field.default)
    example = f"{key} = {toml_value(field.examples[0])}" if field.examples else ""
    return JobSetting(table, key, must_of(field).be, default, field.description or "", example)
