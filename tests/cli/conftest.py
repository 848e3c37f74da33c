from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from anabranch.cli.main import status
from tests.cli.sinks import make_sink


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


@pytest.fixture
def anabranch(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command in this process."""

    def run(*arguments: str | Path) -> Outcome:
        capsys.readouterr()
        code = status([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Outcome(code, said.out, said.err)

    return run


@pytest.fixture
def sink(tmp_path: Path) -> Path:
    return make_sink(tmp_path / "out").root
