"""The DTD of an XML stream: which element is an item, and which elements are in it.

A DTD has no types; they come from the data.

    <!ELEMENT photons (photon)* >                 the root has the items, and nothing else
    <!ELEMENT photon (coord, phc?, en)>           an item
    <!ELEMENT coord (ra, dec)>

    item "photon", elements {"coord": {"ra": {}, "dec": {}}, "phc": {}, "en": {}}

An element that can occur several times (`tag*`, `(a, b)+`) is a list, which a stream cannot have: it is left
out. Attributes are read as elements are, under Spark's names for them (`_id`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from anabranch.model.errors import JobError

#: The elements in an element; none: it has text.
Elements = dict[str, "Elements"]

#: Spark's names for an attribute, and for the text of an element that has attributes.
ATTRIBUTE, TEXT = "_", "_VALUE"

_COMMENT = re.compile(r"<!--.*?-->|<\?.*?\?>", re.DOTALL)
_DECLARATION = re.compile(r"<!(\w+)\s+([^\s>]+)\s*((?:\"[^\"]*\"|'[^']*'|[^>\"'])*)>")
_TOKEN = re.compile(r"\s*(#PCDATA|[^\s,|()?*+]+|[(),|?*+])")
_ATTRIBUTE = re.compile(
    r"([^\s\"']+)\s+(?:\([^)]*\)|NOTATION\s*\([^)]*\)|\w+)\s+"
    r"(?:#REQUIRED|#IMPLIED|(?:#FIXED\s+)?(?:\"[^\"]*\"|'[^']*'))"
)


@dataclass(frozen=True)
class Dtd:
    item: str
    elements: Elements


#: For each element those in it, and whether they can occur several times.
Models = dict[str, dict[str, bool]]


def read_dtd(text: str, where: str, item: str | None = None) -> Dtd:
    """Returns the item and its elements. `where` names the file in errors; `item` says which element is an
    item where the DTD leaves it open.
    """
    models: Models = {}
    attributes: dict[str, list[str]] = {}
    for kind, name, rest in _DECLARATION.findall(_COMMENT.sub(" ", text)):
        if kind == "ELEMENT":
            models[name] = _model(rest, f"{where}: element {name}")
        elif kind == "ATTLIST":
            attributes.setdefault(name, []).extend(_ATTRIBUTE.findall(rest))
        elif name == "%":
            raise JobError(f"{where}: parameter entities (<!ENTITY % ...>) are not read; write them out")
    if not models:
        raise JobError(f"{where}: no <!ELEMENT ...> is declared here")
    item = item or _item(models, where)
    if item not in models:
        raise JobError(f"{where}: element {item} is not declared; there are {', '.join(models)}")
    return Dtd(item, _elements(item, models, attributes, where, ()))


def _model(model: str, where: str) -> dict[str, bool]:
    """Returns the elements in a content model: `(a, b?, (c | d)*)` has a, b once, c, d several times."""
    tokens = _TOKEN.findall(model)
    if "".join(tokens) != "".join(model.split()) or tokens.count("(") != tokens.count(")"):
        raise JobError(f"{where}: its content {model.strip()!r} cannot be read")
    elements: dict[str, bool] = {}
    opened: list[set[str]] = []  # the names in every open parenthesis
    for token, after in zip(tokens, [*tokens[1:], ""], strict=True):
        several = after in ("*", "+")
        if token == "(":
            opened.append(set())
        elif token == ")" and opened:
            inside = opened.pop()
            elements |= dict.fromkeys(inside, True) if several else {}
            if opened:
                opened[-1] |= inside
        elif token not in (")", ",", "|", "?", "*", "+", "#PCDATA", "EMPTY", "ANY"):
            elements[token] = several or token in elements
            if opened:
                opened[-1].add(token)
    return elements


def _item(models: Models, where: str) -> str:
    """Returns the only element of the only root."""
    used = {child for inside in models.values() for child in inside}
    roots = [name for name in models if name not in used]
    if len(roots) != 1 or len(models[roots[0]]) != 1:
        raise JobError(
            f"{where}: the root of a stream has one kind of element, the items; "
            f'say which element they are: rowTag = "{next(iter(models))}"'
        )
    return next(iter(models[roots[0]]))


def _elements(
    name: str, models: Models, attributes: dict[str, list[str]], where: str, above: tuple[str, ...]
) -> Elements:
    if name in above:
        raise JobError(f"{where}: element {name} is inside itself ({' in '.join((name, *reversed(above)))})")
    inner: Elements = {
        child: _elements(child, models, attributes, where, (*above, name))
        for child, several in models.get(name, {}).items()
        if not several
    }
    own: Elements = {f"{ATTRIBUTE}{attribute}": {} for attribute in attributes.get(name, [])}
    if own and not inner and above:  # text with attributes
        own = {TEXT: {}, **own}
    return {**inner, **own}
