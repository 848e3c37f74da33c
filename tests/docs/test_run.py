"""Every Python block and every command line of the documentation runs, in a folder of its own per page.

The folder has a copy of examples/, the photons of examples/photons in photons/, and small files under the
names that pages use. Where a page does not run a job itself, `out` is a sink that was made without Spark.
Output that a `console` block shows is compared.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer.main

from anabranch.cli import main
from anabranch.cli.main import status
from tests.cli.sinks import make_sink
from tests.conftest import ROOT
from tests.docs.blocks import Block, Command, blocks_of, commands, name_of, pages, shows

#: Commands that are not run here: how they start, and why.
NOT_RUN = {
    "make ": "a target of the Makefile; only its existence is checked",
    "anabranch serve": "runs until it is stopped; tests/e2e/test_on_spark.py runs it",
    "anabranch token revoke": "needs an id that `token list` printed; tests/service/test_remote.py runs it",
    "MAIN=": "a cluster; tests/spark/test_cluster.py runs such a job",
    "spark-submit": "a cluster; tests/spark/test_cluster.py runs such a job",
    "ANABRANCH_KAFKA_CONNECTOR=": "fetches jars with Maven; tests/spark/test_kafka.py uses it",
    "jupyter lab": "opens an editor; tests/docs/test_notebook.py runs the notebook",
    "python -m bench.": "takes minutes; only the module's existence is checked",
    "anabranch simulate dzalaps --full": "takes hours; tests/simulate runs it small",
}

#: What is added to commands that would take minutes.
SMALL = {
    "anabranch simulate sharing": "--count 200 --queries 5",
    "anabranch simulate dzalaps": "--peers 4 --queries 4 --window 200 --items 200 --figures 9",
    "anabranch simulate place": "--scale 0.001 --seconds 1",
}

#: All commands.
APPLICATION: Any = typer.main.get_command(main.application())

#: The address in the pages; the tests serve on a free port.
ADDRESS = "http://127.0.0.1:8321"

NETWORK = """
[site.A]
[site.B]
[[link]]
between = ["A", "B"]
[stream.photons]
site = "A"
[[query]]
name = "hot"
site = "B"
query = "SELECT en FROM photons WHERE en > 2"
"""


def runnable(page: Path) -> list[Block]:
    return [block for block in blocks_of(page) if block.language in ("python", "sh", "console", "toml")]


def runs_jobs(page: Path) -> bool:
    return any("anabranch run" in block.text for block in runnable(page) if block.language != "toml")


def needs_spark(page: Path) -> bool:
    return runs_jobs(page) or any(block.language == "python" for block in runnable(page))


def parameters() -> Iterator[Any]:
    for page in pages():
        if any(block.language != "toml" for block in runnable(page)):
            marks = [pytest.mark.spark] if needs_spark(page) else []
            if marks or any(start in page.read_text() for start in SMALL):
                marks.append(pytest.mark.slow)
            yield pytest.param(page, id=name_of(page), marks=marks)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("out"))
    (tmp_path / "photons").mkdir()
    shutil.copy(ROOT / "examples" / "photons" / "photons.parquet", tmp_path / "photons")
    random = np.random.default_rng(0)
    rows = {"ra": 360.0, "dec": 90.0, "energy": 5.0}
    recorded = {name: random.uniform(0, most, 300) for name, most in rows.items()}
    recorded |= {"time_us": np.arange(300) * 1_000_000, "obs_id": np.zeros(300, np.int32)}
    pq.write_table(pa.table(recorded), tmp_path / "photons_hess.parquet")
    sensors = {name: random.random(2000) for name in "abcd"}
    pq.write_table(pa.table(sensors), tmp_path / "sensors.parquet")
    (tmp_path / "mine.toml").write_text(NETWORK)
    query = (
        '<a> { for $p in stream("photons")/photons/photon where $p/en > 1 return <b> { $p/en } </b> } </a>'
    )
    (tmp_path / "query.xq").write_text(query)
    (tmp_path / "job.toml").write_text(next(_jobs(ROOT / "README.md")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def _jobs(page: Path) -> Iterator[str]:
    """Blocks that are a whole job file."""
    for block in blocks_of(page):
        if block.language == "toml" and block.text.startswith("# job.toml"):
            yield block.text


class Page:
    """Runs the blocks of a page, one after the other, in one folder and one Python namespace."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], url: str | None) -> None:
        self.folder, self.capsys, self.url = folder, capsys, url
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.token = ""

    def run(self, block: Block) -> None:
        if block.language == "python":
            exec(compile(block.text, str(block), "exec"), self.names)
        elif block.language == "toml":
            if block.text.startswith("# job.toml"):
                (self.folder / "job.toml").write_text(block.text)
        else:
            for command in commands(block):
                self.command(command)

    def command(self, command: Command) -> None:
        if any(command.text.startswith(start) for start in NOT_RUN):
            return
        text = command.text
        for start, options in SMALL.items():
            text += f" {options}" if text.startswith(start) else ""
        if self.url is not None:
            text = text.replace(ADDRESS, self.url)
        if text.startswith("export ANABRANCH_TOKEN="):
            os.environ["ANABRANCH_TOKEN"] = self.token
            return
        code, output = self._anabranch(text) if _plain(text) else self._shell(text)
        if text.startswith("anabranch token create"):
            self.token = output.split()[-1]
        refused = (command.output or "").startswith("anabranch: ")
        assert (code != 0) == refused, f"{command.place}: {text}\n{output}"
        if command.output is not None:
            assert shows(output, command.output), f"{command.place}: {text}\n{output}"

    def _anabranch(self, text: str) -> tuple[int, str]:
        """In this process, so that jobs run on the session that all tests share."""
        self.capsys.readouterr()
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        code = status(shlex.split(text)[1:])
        for number, handler in handlers.items():  # a job that runs until it is stopped sets its own
            signal.signal(number, handler)
        said = self.capsys.readouterr()
        return code, said.out if code == 0 else said.out + said.err  # progress is not compared

    def _shell(self, text: str) -> tuple[int, str]:
        """Live events have no end: they are read for a second."""
        live = ["timeout", "1"] if text.startswith("curl -sN") else []
        done = subprocess.run([*live, "bash", "-c", text], capture_output=True, text=True, timeout=120)
        return 0 if live and done.returncode == 124 else done.returncode, done.stdout + done.stderr


def _plain(text: str) -> bool:
    words = shlex.split(text)
    return words[0] == "anabranch" and "|" not in words


@pytest.mark.parametrize("page", list(parameters()))
def test_a_page_runs(
    page: Path,
    workspace: Path,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANABRANCH_TOKEN", "")
    url = None
    if needs_spark(page):
        request.getfixturevalue("shared_spark")
    if any(ADDRESS in block.text for block in runnable(page)):
        url = request.getfixturevalue("address")  # serves a sink in `out`
    elif not runs_jobs(page):
        make_sink(workspace / "out")
    runner = Page(workspace, capsys, url)
    for block in runnable(page):
        runner.run(block)


def test_queries_are_tried_without_spark(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first answer of a newcomer, also where there is no Java."""
    found = [
        command
        for page in pages()
        for block in blocks_of(page)
        if block.language in ("sh", "console")
        for command in commands(block)
        if command.words[:2] == ["anabranch", "try"]
    ]
    assert found
    for command in found:
        Page(workspace, capsys, None).command(command)


# --- what is only named ---


def _made_targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def _inline(page: Path) -> list[str]:
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", text)]


@pytest.mark.parametrize("page", [pytest.param(page, id=name_of(page)) for page in pages()])
def test_named_commands_exist(page: Path) -> None:
    """Commands in the text, and those in blocks that are not run: the command and its options are there."""
    lines = _inline(page)
    for block in runnable(page):
        lines += [command.text for command in commands(block) if block.language in ("sh", "console")]
    for line in lines:
        if line.startswith("make ") and len(line.split()) == 2:
            assert line.split()[1] in _made_targets(), line
        elif match := re.match(r"(?:\w+=\S* )*python -m ([\w.]+)", line):
            if match[1].split(".")[0] in ("bench", "tools"):
                assert (ROOT / (match[1].replace(".", "/") + ".py")).exists(), line
        elif line.startswith("anabranch ") and "[" not in line:
            _check_command(line)


def _check_command(line: str) -> None:
    found: Any = APPLICATION
    for word in line.split()[1:]:
        if word in getattr(found, "commands", {}):
            found = found.commands[word]
    if "commands" in vars(found):
        raise AssertionError(f"there is no command {line!r}")
    known = {name for parameter in found.params for name in parameter.opts + parameter.secondary_opts}
    known |= {"--help", "--url"}
    for option in re.findall(r"(?<!\S)--[\w-]+", line):
        assert option in known, f"{line}: {option}"
