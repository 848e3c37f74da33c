"""What `anabranch serve` refuses before Spark starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from anabranch.catalog.tokens import Role, Tokens
from anabranch.results.layout import layout_of
from tests.cli.conftest import Command, anabranch  # noqa: F401
from tests.job.jobs import GOOD, changed, write_job


def test_refused_before_spark_starts(anabranch: Command, tmp_path: Path) -> None:  # noqa: F811
    def refused(text: str, *options: str) -> str:
        done = anabranch("serve", write_job(tmp_path, text), *options)
        assert (done.code, done.out) == (2, "")
        return done.err

    assert "nothing matches" in refused(GOOD)
    (tmp_path / "photons").mkdir()
    (tmp_path / "photons" / "1.parquet").touch()
    assert "subscription vela" in refused(changed(("SELECT ra", "SELEC ra")))
    assert "there are no tokens yet" in refused(GOOD, "--host", "0.0.0.0")
    assert "there is no scenario" in refused(GOOD, "--network", str(tmp_path / "nowhere.toml"))
    assert anabranch("token", "create", tmp_path / "job.toml", "ann").code == 0
    tokens = Tokens(layout_of(tmp_path / "job.toml").catalog)
    assert [(token.owner, token.role) for token in tokens.all()] == [("ann", Role.USER)]
    tokens.close()
    assert "subscription vela" in refused(changed(("SELECT ra", "SELEC ra")), "--host", "0.0.0.0")


def test_help_shows_examples(anabranch: Command) -> None:  # noqa: F811
    assert "Example: anabranch serve" in anabranch("serve", "--help").out
    for name in ("create", "list", "revoke"):
        assert f"Example: anabranch token {name}" in anabranch("token", name, "--help").out


def test_commands_that_need_no_service_start_without_it() -> None:
    text = (
        "import sys, anabranch.cli.main; "
        "print(*{'fastapi', 'uvicorn', 'httpx', 'pyspark', 'pyarrow'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
