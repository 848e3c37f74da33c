"""One name for one thing: classes and modules that a reader could mistake for each other have other names."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tools.house import ROOT, modules, shared_class_names

#: Modules that every family has, or both query languages.
IN_EVERY_FAMILY = {"__init__", "spec", "family", "arrays"}


def stems(folder: Path) -> list[str]:
    return [path.stem for path in sorted(folder.rglob("*.py"))]


def test_classes_have_names_of_their_own() -> None:
    assert shared_class_names(modules()) == {}


def test_modules_of_the_families_have_names_of_their_own() -> None:
    count = Counter(stems(ROOT / "anabranch" / "families"))
    assert {name for name, times in count.items() if times > 1} <= IN_EVERY_FAMILY


def test_the_layers_below_the_families_have_names_of_their_own() -> None:
    folders = [ROOT / "anabranch" / name for name in ("model", "numeric", "predicates", "chain")]
    count = Counter(name for folder in folders for name in stems(folder))
    assert {name for name, times in count.items() if times > 1} <= {"__init__"}
