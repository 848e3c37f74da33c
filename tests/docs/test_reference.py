"""The pages of docs/reference are what the code says."""

from __future__ import annotations

from tools import reference


def test_the_python_page_is_up_to_date() -> None:
    found = (reference.FOLDER / "python.md").read_text()
    assert found == reference.python_page(), "run python -m tools.reference"


def test_the_page_of_job_files_is_up_to_date() -> None:
    found = (reference.FOLDER / "job.md").read_text()
    assert found == reference.job_page(), "run python -m tools.reference"
