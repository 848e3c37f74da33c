"""Files that are there whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.model.files import written_atomically


def test_a_new_file_and_a_replaced_one(tmp_path: Path) -> None:
    path = tmp_path / "below" / "latest"
    for text in ("1", "12"):
        with written_atomically(path) as file:
            file.write_text(text)
            assert not path.exists() or path.read_text() == "1"
        assert path.read_text() == text
    assert [entry.name for entry in path.parent.iterdir()] == ["latest"]


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "latest"
    path.write_text("old")

    def fail() -> None:
        with written_atomically(path) as file:
            file.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["latest"]


def test_only_its_owner_reads_a_secret(tmp_path: Path) -> None:
    with written_atomically(tmp_path / "secret", mode=0o600) as file:
        file.write_text("x")
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
