"""What every page must be: blocks name their language, lines are short, links and modules exist."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from anabranch.chain.state import VERSION
from anabranch.language.bind import compile_query
from anabranch.language.unparse import unparse
from anabranch.model.stream import Stream
from tests.conftest import ROOT
from tests.docs.blocks import LANGUAGES, Block, blocks, name_of, pages
from tests.language.streams import STREAMS, stream

PAGES = [pytest.param(page, id=name_of(page)) for page in pages()]
PACKAGES = [path.name for path in (ROOT / "src" / "anabranch").iterdir() if path.is_dir()]
#: `chain/order`, `families/filters/share`, `tests/laws` between backticks.
_MODULE = re.compile(rf"`((?:src/anabranch/)?(?:{'|'.join(PACKAGES)}|tests|bench|tools)/[\w/.<>]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def _text(page: Path) -> str:
    """The page without its code blocks."""
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_lines_are_short(page: Path) -> None:
    long = [
        f"{name_of(page)}:{number} has {len(line)} characters"
        for number, line in enumerate(page.read_text().splitlines(), start=1)
        if len(line) > 120
    ]
    assert not long


@pytest.mark.parametrize("page", PAGES)
def test_blocks_name_their_language(page: Path) -> None:
    """An indented block would not be found, and so not be run."""
    fences = re.findall(r"^ *```(.*)$", page.read_text(), re.MULTILINE)[::2]
    assert set(fences) <= set(LANGUAGES)
    text = _text(page)
    assert not re.search(r"(?:^|\n)\n    (?! *[-*\d])\S.*\n(?!.*[a-z]{3})", text), "indented block"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(_text(page)):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{name_of(page)}: {target}"
        if anchor:
            assert anchor in _anchors(file), f"{name_of(page)}: {target}"


def _anchors(page: Path) -> set[str]:
    """The ids that Markdown gives to headings."""
    headings = re.findall(r"^#+ (.*)$", _text(page), re.MULTILINE)
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", heading.strip().lower())) for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_modules_exist(page: Path) -> None:
    missing = []
    for path in _MODULE.findall(page.read_text()):
        path = path.removeprefix("src/anabranch/").rstrip("/.")
        if "<" in path:
            continue
        places = [ROOT / path, ROOT / "src" / "anabranch" / path]
        if not any(place.exists() or place.with_suffix(".py").exists() for place in places):
            missing.append(path)
    assert not missing, name_of(page)


def test_the_version_of_states() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    assert f"<!-- state version -->{VERSION}." in text


def test_decisions_are_listed() -> None:
    index = (ROOT / "docs" / "decisions" / "index.md").read_text()
    for page in (ROOT / "docs" / "decisions").glob("*.md"):
        assert page.name == "index.md" or f"({page.name})" in index


def test_the_glossary_has_each_word_once() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text()
    rows = [row for row in re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE) if row not in ("word", "---")]
    words = [word.strip() for row in rows for word in row.split(",")]
    assert sorted(words) == sorted(set(words))


#: What queries in the documentation are about, beside the streams of tests/language.
SKY = stream(
    "photons",
    "det_time:float ra:float dec:float en:float phc:int coord.cel.ra:float coord.cel.dec:float",
    time="det_time",
)
MORE = {
    "photons": SKY,
    "targets": stream(
        "targets",
        "x:float y:float latitude:float longitude:float time:float target:int",
        time="time",
        position=("x", "y"),
    ),
    "police": stream("police", "id:string x:float y:float t:int", time="t", object="id", position=("x", "y")),
}


def _queries(block: Block) -> list[str]:
    """SQL: one query per line, with indented lines going on."""
    if block.language == "xquery":
        return [block.text]
    return [query for query in re.split(r"\n(?=\S)", block.text.strip()) if query]


@pytest.mark.parametrize("block", blocks("sql", "xquery"), ids=str)
def test_queries_compile(block: Block) -> None:
    streams: dict[str, Stream] = STREAMS | MORE
    for query in _queries(block):
        bound = compile_query(query, streams)
        if block.language == "sql":  # and as they are shown by `explain`
            assert compile_query(unparse(bound.spec, streams[bound.stream]), streams) == bound


@pytest.mark.parametrize("block", blocks("json"), ids=str)
def test_json_is_json(block: Block) -> None:
    json.loads(block.text)


@pytest.mark.parametrize("block", blocks("toml"), ids=str)
def test_jobs_are_valid(block: Block, tmp_path: Path) -> None:
    """A block may be a part of a job: what it lacks is added."""
    from anabranch.job.job_file import load_job
    from anabranch.sites.network_file import load_network

    given = tomllib.loads(block.text)
    text = block.text
    if "site" in given:
        network = tmp_path / "network.toml"
        network.write_text(text)
        load_network(network)
        return
    if "stream" not in given:
        text += '\n[stream.photons]\nsource = { format = "parquet", path = "photons/*.parquet" }\n'
    if "sink" not in given:
        text += '\n[sink]\nformat = "parquet"\npath = "out"\n'
    job = tmp_path / "job.toml"
    job.write_text(text)
    load_job(job)
