"""`anabranch reoptimize`: the plan that runs beside a fresh one."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Command


def test_of_a_job_there_is_nothing_to_move(anabranch: Command, sink: Path) -> None:
    assert anabranch("subscribe", sink, "more", "SELECT en FROM photons WHERE en > 1").code == 0
    assert anabranch("subscribe", sink, "less", "SELECT en FROM photons WHERE en > 2").code == 0
    assert anabranch("cancel", sink, "more").code == 0
    said = anabranch("reoptimize", sink)
    assert said.code == 0
    assert said.out.startswith("photons: ")
    assert "There is nothing to move." in said.out


def test_of_a_network(anabranch: Command) -> None:
    said = anabranch("reoptimize", "--scenario", "extended", "--queries", "12")
    assert said.code == 0
    assert "running" in said.out
    assert "of 12 subscriptions would be made in another way" in said.out


def test_one_of_the_two(anabranch: Command, sink: Path) -> None:
    assert anabranch("reoptimize").code == 2
    assert anabranch("reoptimize", sink, "--scenario", "extended").code == 2
