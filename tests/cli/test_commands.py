"""The commands around the catalog, and how the command line ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.catalog.catalog import Catalog
from anabranch.cli import main
from anabranch.model.control_log import Activate, Cancel
from anabranch.model.errors import RunError
from anabranch.results.layout import Layout
from tests.cli.conftest import Command
from tests.cli.sinks import VELA
from tests.job.jobs import GOOD, changed, write_job


def last_control(sink: Path) -> Activate | Cancel:
    with Catalog(sink / "_anabranch" / "catalog.sqlite") as catalog:
        control = catalog.log("photons", ["filters"], 0, catalog.version("photons", ["filters"]))[-1]
    assert isinstance(control, Activate | Cancel)
    return control


# --- subscribe, cancel, list ---


def test_subscribe(anabranch: Command, sink: Path) -> None:
    done = anabranch("subscribe", sink, "more", "SELECT ra FROM photons WHERE en > 5", "--activate", "2.5")
    assert (done.code, done.out) == (0, "more is subscription 3: select on photons\n")
    control = last_control(sink)
    assert isinstance(control, Activate)
    assert (control.name, control.time) == ("more", 2.5)


def test_subscribe_from_standard_input(
    anabranch: Command, sink: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT dec\nFROM photons\n"))
    assert anabranch("subscribe", sink, "piped", "-").code == 0
    assert "SELECT dec FROM photons" in anabranch("list", sink).out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["x", "SELECT enn FROM photons"], "unknown column 'enn'"),
        (["x", "SELECT ra FROM photon"], "unknown stream 'photon'"),
        (["x", "SELECT"], "SELECT"),
        (["vela", "SELECT ra FROM photons"], "the name 'vela' is taken"),
        ([" x", "SELECT ra FROM photons"], "cannot be called ' x'"),
        (["x", "SELECT ra FROM photons", "--activate", "soon"], "--activate soon is not a time"),
        (["x", "SELECT ra FROM photons", "--activate", "nan"], "--activate nan is not a time"),
        (
            ["x", "SELECT ra FROM photons", "--activate", "2026-01-01"],
            "is a date, but the time of stream photons",
        ),
    ],
)
def test_subscribe_refuses(anabranch: Command, sink: Path, arguments: list[str], said: str) -> None:
    refused = anabranch("subscribe", sink, *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("anabranch: ")
    assert said in refused.err


def test_subscribe_before_the_job_has_run(anabranch: Command, tmp_path: Path) -> None:
    refused = anabranch("subscribe", write_job(tmp_path), "x", "SELECT ra FROM photons")
    assert refused.code == 2
    assert "run the job once first" in refused.err


def test_cancel(anabranch: Command, sink: Path) -> None:
    done = anabranch("cancel", sink, "vela", "--at", "7")
    assert (done.code, done.out) == (0, "vela is cancelled at 7\n")
    assert last_control(sink) == Cancel(1, 7, "filters")
    assert anabranch("cancel", sink, "vela").code == 0  # now, not at 7
    refused = anabranch("cancel", sink, "vela")
    assert refused.code == 2
    assert "cancelled already" in refused.err
    assert "did you mean 'vela'?" in anabranch("cancel", sink, "vla").err


def test_list_says_who_is_suspended_and_why(anabranch: Command, sink: Path) -> None:
    with Catalog(Layout(sink).catalog) as catalog:
        catalog.suspend(1, "at item 7: it would give 9 windows")
    lines = anabranch("list", sink).out.splitlines()
    assert "suspended at item 7: it would give 9 windows" in lines[1]
    assert "suspended" not in lines[2]
    entry = json.loads(anabranch("list", sink, "--format", "json").out.splitlines()[0])
    assert (entry["state"], entry["suspended"]) == ("active", "at item 7: it would give 9 windows")
    anabranch("cancel", sink, "vela")
    assert "suspended" not in anabranch("list", sink, "--all").out


def test_list(anabranch: Command, sink: Path) -> None:
    anabranch("cancel", sink, "all")
    lines = anabranch("list", sink).out.splitlines()
    assert lines[0].split() == ["number", "name", "stream", "kind", "state", "activate", "cancel", "query"]
    assert len(lines) == 2
    assert lines[1].endswith(VELA)
    entries = [
        json.loads(line) for line in anabranch("list", sink, "--all", "--format", "json").out.splitlines()
    ]
    assert [(entry["name"], entry["state"]) for entry in entries] == [
        ("vela", "active"),
        ("all", "cancelled"),
    ]
    assert entries[0]["query"] == VELA


def test_names_are_not_markup(anabranch: Command, sink: Path) -> None:
    anabranch("subscribe", sink, "[red]x", "SELECT ra FROM photons")
    assert "[red]x" in anabranch("list", sink).out
    assert "'[red]y'" in anabranch("results", sink, "[red]y").err


# --- run ---


def test_run_refuses_before_spark_starts(anabranch: Command, tmp_path: Path) -> None:
    def refused(text: str) -> str:
        done = anabranch("run", write_job(tmp_path, text), "--once")
        assert (done.code, done.out) == (2, "")
        assert "pyspark" not in sys.modules or "anabranch.spark.run" not in sys.modules
        return done.err

    assert "nothing matches" in refused(GOOD)
    (tmp_path / "photons").mkdir()
    (tmp_path / "photons" / "1.parquet").touch()
    assert "subscription vela" in refused(changed(("SELECT ra", "SELEC ra")))
    assert "unknown stream 'fotons'; did you mean 'photons'?" in refused(
        changed(("FROM photons", "FROM fotons"))
    )
    assert "job.toml:2" in refused(changed(("source =", "sorce =")))


def test_run_and_demo_hand_over(anabranch: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they call has Spark in it: here a module of the same name that takes notes."""
    from types import ModuleType

    calls: list[tuple[object, ...]] = []
    run, tour = ModuleType("anabranch.spark.run"), ModuleType("anabranch.cli.tour")
    run.run_job = lambda job, **settings: calls.append((job.path.name, *settings.items()))  # type: ignore[attr-defined]
    tour.run_tour = lambda seconds, folder, beside: calls.append((seconds, folder))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "anabranch.spark.run", run)
    monkeypatch.setitem(sys.modules, "anabranch.cli.tour", tour)
    (tmp_path / "photons").mkdir()
    (tmp_path / "photons" / "1.parquet").touch()
    assert anabranch("run", write_job(tmp_path), "--seconds", "2.5", "--quiet").code == 0
    assert anabranch("demo", "--seconds", "3", "--path", tmp_path, "--no-browser").code == 0
    given = (("once", False), ("seconds", 2.5), ("quiet", True))
    assert [call[:4] for call in calls] == [("job.toml", *given), (3.0, tmp_path)]


# --- how it ends ---


def test_help_of_every_command_shows_an_example(anabranch: Command) -> None:
    top = anabranch("--help")
    assert top.code == 0
    for name in ("run", "results", "subscribe", "cancel", "list", "explain", "demo"):
        assert name in top.out
        assert f"Example: anabranch {name}" in anabranch(name, "--help").out


def test_version(anabranch: Command) -> None:
    assert anabranch("--version").out.startswith("anabranch ")


@pytest.mark.parametrize(
    "arguments", [["results"], ["nonsense"], ["run", "--bad"], ["list", "x", "--format", "y"], []]
)
def test_usage_errors(anabranch: Command, arguments: list[str]) -> None:
    assert anabranch(*arguments).code == 2


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RunError("the disk is full"), 1, "anabranch: the disk is full\n"),
        (
            ValueError("odd\nsecond line"),
            1,
            "anabranch: unexpected ValueError: odd. Set ANABRANCH_TRACEBACK=1",
        ),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_become_exit_statuses(
    anabranch: Command, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, said: str
) -> None:
    def fail(arguments: object) -> int:
        raise error

    monkeypatch.setattr(main, "_invoke", fail)
    failed = anabranch("list", "x")
    assert failed.code == code
    assert said in failed.err
    assert "Traceback" not in failed.err
    monkeypatch.setenv("ANABRANCH_TRACEBACK", "1")
    assert ("Traceback" in anabranch("list", "x").err) is (code == 1)


def test_as_a_process(sink: Path) -> None:
    """Exit statuses as the shell sees them, and a pipe that is closed early."""
    command = f"{sys.executable} -m anabranch.cli.main"
    environment = {**os.environ, "PYTHONPATH": "src"}

    def shell(text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", text], capture_output=True, text=True, env=environment, timeout=60
        )

    big = f"SELECT ra FROM photons -- {'x' * 5000}"
    with Catalog(sink / "_anabranch" / "catalog.sqlite") as catalog:
        from anabranch.catalog.registration import bind_subscription
        from anabranch.model.subscription import Subscription

        streams = catalog.streams()
        catalog.subscribe_many([bind_subscription(Subscription(f"q{n}", big), streams) for n in range(100)])
    done = shell(f"{command} list {sink} --format json | head -c 10; echo; echo ${{PIPESTATUS[0]}}")
    assert (done.stdout.splitlines(), done.stderr) == (['{"number":', "0"], "")
    assert shell(f"{command} results {sink} nobody").returncode == 2


def test_interrupted(anabranch: Command, sink: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Waiting:
        def read(self) -> str:
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", Waiting())
    stopped = anabranch("subscribe", sink, "x", "-")
    assert (stopped.code, stopped.out) == (130, "")
    assert "Traceback" not in stopped.err
