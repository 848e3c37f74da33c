"""What `mkdocs build` does besides: pages that are outside of docs/ become pages of the site.

README.md is the first page. CONTRIBUTING.md, CHANGELOG.md and the pages of examples/ are added under their
own names. Links are written for readers of the repository; here they are changed to the pages of the site.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def on_config(config: Any) -> Any:
    """Lists every decision in the navigation, in the order of their names."""
    pages = sorted(
        path.name for path in (ROOT / "docs" / "decisions").glob("*.md") if path.name != "index.md"
    )
    for section in config.nav:
        if "Decisions" in section:
            section["Decisions"] = ["decisions/index.md", *(f"decisions/{name}" for name in pages)]
    return config


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for source in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", *examples()):
        name = "index.md" if source == "README.md" else source
        text = in_site((ROOT / source).read_text(), Path(source))
        files.append(File.generated(config, name, content=text))
    for picture in sorted((ROOT / "examples").rglob("*.ipynb")):
        name = str(picture.relative_to(ROOT))
        files.append(File.generated(config, name, abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links from docs/ to examples/."""
    return re.sub(r"\]\(((?:\.\./)*)\.\./(examples/[^)]*)\)", r"](\1\2)", markdown)


def examples() -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "examples").rglob("README.md"))


def in_site(text: str, source: Path) -> str:
    """The text of a page outside of docs/ with links to where docs/ is the root."""
    up = "../" * (len(source.parts) - 1)
    return text.replace(f"]({up}docs/", f"]({up}")
