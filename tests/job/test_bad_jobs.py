"""Job files that are wrong: each error says what, where, and what would be right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.job.declarations import declare
from anabranch.job.job_file import load_job
from anabranch.model.columns import Column, ColumnType
from anabranch.model.errors import JobError
from anabranch.model.job import Source, StreamDeclaration
from anabranch.model.limits import DEFAULT_LIMITS
from tests.job.jobs import GOOD, changed, write_job

SOURCE = '{ format = "parquet", path = "photons/*.parquet" }'
TIME = 'time = "det_time"'


def setting(line: str) -> str:
    """The good job with a line more in its stream."""
    return changed((TIME, f"{TIME}\n{line}"))


def source(text: str) -> str:
    return changed((SOURCE, text))


def subscription(lines: str) -> str:
    return GOOD + f"[[subscription]]\n{lines}\n"


BAD = {
    "syntax": (changed(('"vela"', '"vela')), ["job.toml:7: not valid TOML", 'name = "vela\n', "^"]),
    "unknown table": (
        changed(("[[subscription]]", "[[subscriptions]]")),
        ["unknown table 'subscriptions'", "did you mean 'subscription'?"],
    ),
    "unknown setting": (
        setting("latenes = 5"),
        ["job.toml:4: stream photons: unknown setting 'latenes'", "did you mean 'lateness'?"],
    ),
    "no stream": ('[sink]\nformat = "json"\npath = "o"\n', ["there is no stream", "[stream.photons]"]),
    "stream without a name": (
        changed(("[stream.photons]", "[stream]")),
        ["job.toml:2: stream: source belongs", "write [stream.photons]"],
    ),
    "stream's name": (
        changed(("[stream.photons]", '[stream."a b"]')),
        ["cannot be called 'a b'", "only letters, digits"],
    ),
    "no source": (
        changed((f"source = {SOURCE}\n", "")),
        ["job.toml:1: stream photons: source is missing", "source = { format ="],
    ),
    "source is text": (source('"photons"'), ['source = "photons" cannot be; it must be a table']),
    "no format": (
        source('{ fromat = "csv", path = "x" }'),
        ["job.toml:2", "source: format is missing", "instead of 'fromat'?", "one of parquet"],
    ),
    "unknown format": (
        source('{ format = "parket", path = "x" }'),
        ['format = "parket" cannot be', "did you mean 'parquet'?"],
    ),
    "no path": (
        source('{ format = "csv", pth = "x" }'),
        ["job.toml:2", "unknown setting 'pth'", "did you mean 'path'?"],
    ),
    "no path at all": (source('{ format = "csv" }'), ["path is missing", 'path = "photons/*.parquet"']),
    "path is a number": (source('{ format = "csv", path = 5 }'), ["path = 5 cannot be; it must be a path"]),
    "unknown option": (
        source('{ format = "csv", path = "x", headr = true }'),
        ["'headr'", "did you mean 'header'?", "options = { ... }"],
    ),
    "kafka without topic": (
        source('{ format = "kafka", bootstrap = "h:1" }'),
        ["topic is missing", 'topic = "photons"'],
    ),
    "kafka without schema": (
        source('{ format = "kafka", bootstrap = "h:1", topic = "t" }'),
        ["schema is missing", "does not say its own types"],
    ),
    "time is a number": (
        changed((TIME, "time = 5")),
        ["job.toml:3: stream photons: time = 5 cannot be; it must be a text"],
    ),
    "negative lateness": (
        setting("lateness = -1"),
        ["job.toml:4: stream photons: lateness = -1 cannot be; it must be a number >= 0"],
    ),
    "lateness is true": (setting("lateness = true"), ["lateness = true cannot be; it must be a number >= 0"]),
    "lateness is nan": (setting("lateness = nan"), ["lateness = nan cannot be"]),
    "lateness without time": (changed((TIME, "lateness = 5")), ["lateness needs a time", "time = ..."]),
    "tick of zero": (setting("tick = 0"), ["tick = 0 cannot be; it must be a number > 0"]),
    "position is text": (changed(('["ra", "dec"]', '"ra"')), ['position = "ra" cannot be', '["ra", "dec"]']),
    "position twice": (changed(('["ra", "dec"]', '["ra", "ra"]')), ["a list of different texts"]),
    "bounds": (
        setting("bounds = [[5, 0], [0, 1]]"),
        ["bounds = [[5, 0], [0, 1]] cannot be", "[least, greatest]"],
    ),
    "bounds of one": (setting("bounds = [[0, 1]]"), ["bounds has 1 pairs and position 2 columns"]),
    "regions": (setting("regions = [3, 0]"), ["regions = [3, 0] cannot be", "[columns, rows]"]),
    "regions inside out": (setting("regions = [[5, 5, 0, 0]]"), ["a list of rectangles"]),
    "metric": (setting('metric = "manhattan"'), ["it must be one of euclidean, haversine"]),
    "unit": (setting('metric = "haversine"\nunit = "feet"'), ['unit = "feet"', "km, m, miles"]),
    "one bracket": (changed(("[[subscription]]", "[subscription]")), ["[[subscription]], with two brackets"]),
    "no name": (subscription('query = "x"'), ["job.toml:13: subscription 2: name is missing"]),
    "empty name": (
        subscription('name = ""\nquery = "x"'),
        ['subscription 2: name = "" cannot be', "1 to 200 characters"],
    ),
    "control character": (subscription('name = "a\\u0007"\nquery = "x"'), ["without control characters"]),
    "name is a number": (subscription('name = 5\nquery = "x"'), ["name = 5 cannot be"]),
    "no query": (subscription('name = "b"'), ["subscription b: query is missing", "SELECT"]),
    "empty query": (subscription('name = "b"\nquery = " "'), ["subscription b: query", "not empty"]),
    "double name": (
        subscription('name = "vela"\nquery = "x"'),
        ["job.toml:14: subscription vela", "(line 7)", "names must differ"],
    ),
    "activate is text": (
        subscription('name = "b"\nquery = "x"\nactivate = "5"'),
        ["job.toml:16", 'activate = "5" cannot be', "a number in the units"],
    ),
    "cancel is true": (subscription('name = "b"\nquery = "x"\ncancel = true'), ["cancel = true cannot be"]),
    "activate is a time of day": (
        subscription('name = "b"\nquery = "x"\nactivate = 12:00:00'),
        ["a date such as"],
    ),
    "activate after cancel": (
        subscription('name = "b"\nquery = "x"\nactivate = 5\ncancel = 5'),
        ["activate = 5 and cancel = 5", "greater than activate"],
    ),
    "number and date": (
        subscription('name = "b"\nquery = "x"\nactivate = 5\ncancel = 2026-01-01'),
        ["both numbers or both dates"],
    ),
    "no sink": (GOOD.partition("[sink]")[0], ["there is no sink", "[sink] with format"]),
    "sink without format": (
        changed(('[sink]\nformat = "parquet"', "[sink]")),
        ["job.toml:10: sink: format is missing", "parquet, json, kafka"],
    ),
    "sink format": (
        changed(('[sink]\nformat = "parquet"', '[sink]\nformat = "csv"')),
        ['format = "csv" cannot be', "one of parquet, json, kafka"],
    ),
    "sink without path": (changed(('path = "out"', "")), ["sink: path is missing"]),
    "sink setting": (
        changed(('path = "out"', 'pat = "out"')),
        ["unknown setting 'pat'", "did you mean 'path'?"],
    ),
    "sink is a URL": (changed(('"out"', '"s3a://b/out"')), ["it must be a folder, not a URL"]),
    "sink is the source": (
        changed(('"out"', '"photons"')),
        ["sink", "would read its own results", "choose another folder"],
    ),
    "kafka sink without topic": (
        changed(('[sink]\nformat = "parquet"\npath = "out"', '[sink]\nformat = "kafka"\nbootstrap = "h:1"')),
        ["topic is missing"],
    ),
    "engine setting": (
        GOOD + "[engine]\nzone = 5",
        ["engine: unknown setting 'zone'", "did you mean 'zones'?"],
    ),
    "no zones": (
        GOOD + "[engine]\nzones = 0",
        ["job.toml:14: engine: zones = 0 cannot be; it must be a whole number >= 1"],
    ),
    "half a zone": (GOOD + "[engine]\nzones = 1.5", ["zones = 1.5 cannot be"]),
    "trigger": (GOOD + "[engine]\ntrigger = -1", ["trigger = -1 cannot be; it must be a number >= 0"]),
    "spark": (GOOD + '[engine]\nspark = { memory = "2g" }', ["memory", '"spark.<setting>" = "<value>"']),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_jobs(tmp_path: Path, case: str) -> None:
    text, said = BAD[case]
    with pytest.raises(JobError) as caught:
        load_job(write_job(tmp_path, text))
    message = str(caught.value)
    assert message.startswith("job.toml"), message
    for part in said:
        assert part in message, message
    assert caught.value.exit_status == 2


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    """In the order of the file; what is misspelt is not said to be missing, too."""
    text = changed((TIME, 'tim = "det_time"'), ("query", "querry")) + "[engine]\nzones = 0\n[engin]\n"
    with pytest.raises(JobError) as caught:
        load_job(write_job(tmp_path, text))
    assert [line.partition("?")[0] for line in str(caught.value).splitlines()] == [
        "job.toml:3: stream photons: unknown setting 'tim'; did you mean 'time'",
        "job.toml:8: subscription vela: unknown setting 'querry'; did you mean 'query'",
        "job.toml:14: engine: zones = 0 cannot be; it must be a whole number >= 1",
        "job.toml:15: unknown table 'engin'; did you mean 'engine'",
    ]


def test_a_table_of_its_own_for_a_source(tmp_path: Path) -> None:
    text = changed((f"source = {SOURCE}\n", "")) + '[stream.photons.source]\nformat = "csv"\nheader = []\n'
    with pytest.raises(JobError, match=r"job\.toml:12: stream photons, source: path is missing"):
        load_job(write_job(tmp_path, text))
    with pytest.raises(JobError, match=r"job\.toml:14: stream photons, source: header = \[\] cannot be"):
        load_job(write_job(tmp_path, text + 'path = "x"\n'))


def test_many_mistakes_are_found_soon(tmp_path: Path) -> None:
    many = "".join(f'[[subscription]]\nname = "q{n}"\nquery = 5\n' for n in range(5_000))
    with pytest.raises(JobError, match="and 4990 more are wrong"):
        load_job(write_job(tmp_path, GOOD + many))


def test_no_file(tmp_path: Path) -> None:
    write_job(tmp_path)
    with pytest.raises(JobError, match=r"there is no job file .*jop\.toml; did you mean 'job\.toml'\?"):
        load_job(tmp_path / "jop.toml")


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="is not a file; a job file is a TOML file"):
        load_job(tmp_path)


def test_not_text(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(JobError, match=r"job\.toml: not UTF-8 \(byte 0\)"):
        load_job(tmp_path / "job.toml")


#: Every number of a job, as far as it can be written.
NUMBERS = [
    *(setting(f"{key} = {{}}") for key in ("lateness", "tick", "expire", "regions")),
    setting("regions = [{}, 3]"),
    setting("bounds = [[0, {}], [0, 1]]"),
    *(f"{GOOD}[engine]\n{key} = {{}}\n" for key in ("zones", "trigger", "max_files_per_batch")),
    *(f"{GOOD}[limits]\n{key} = {{}}\n" for key in DEFAULT_LIMITS.to_json()),
]


@pytest.mark.parametrize("number", ["1" + "0" * 400, "-1" + "0" * 32, "inf", "nan"])
def test_numbers_beyond_64_bits_are_refused(number: str, tmp_path: Path) -> None:
    for text in NUMBERS:
        with pytest.raises(JobError, match="cannot be"):
            load_job(write_job(tmp_path, text.replace("{}", number)))


@pytest.mark.parametrize("number", ["1" + "0" * 400, "inf", "nan"])
@pytest.mark.parametrize("key", ["activate", "cancel"])
def test_times_are_finite(key: str, number: str, tmp_path: Path) -> None:
    text = subscription(f'name = "x"\nquery = "SELECT ra FROM photons"\n{key} = {number}')
    with pytest.raises(JobError, match="cannot be"):
        load_job(write_job(tmp_path, text))


def test_ticks_are_not_too_short() -> None:
    columns = (Column("t", ColumnType.FLOAT),)
    for tick in (1e-12, 1e-7):
        with pytest.raises(JobError, match=r"tick = 1e-(12|07) is too short"):
            declare(StreamDeclaration("s", Source("rate"), {"time": "t", "tick": tick}), columns)


def test_limits_reach_the_streams(tmp_path: Path) -> None:
    job = load_job(write_job(tmp_path, f"{GOOD}[limits]\nnearest_k = 50\n"))
    assert job.streams["photons"].limits == replace(DEFAULT_LIMITS, nearest_k=50)
