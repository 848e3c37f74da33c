"""The plan as a few boxes to draw, however many subscriptions there are.

    photons                        the stream: every item
      en >= 0.5                    a condition, asked for by 18 subscriptions
        164 selections             folded: many conditions below the same one, each for one subscription
      119 selections               folded

What many subscriptions depend on is drawn first. The rest of the conditions below the same parent is folded
into one box, which opens a page at a time. The way to a subscription is drawn even where it would be folded.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count
from typing import Any

from anabranch.model.suggestions import suggestion
from anabranch.service.dashboard_models import PlanBox, PlanPage, PlanStream, Savings
from anabranch.service.errors import unknown

#: Up to so many siblings are all drawn. Of more, those that at least so large a part of the subscriptions
#: below their parent depend on, and the rest is folded.
FEW, LARGE_PART = 8, 0.02
#: A folded box that is opened shows so many more.
PAGE = 20
#: Boxes of a plan, and levels of conditions below each other, before anything is opened.
MOST_BOXES, LEVELS = 40, 4
#: A request waits so long for a new plan, if there is an old one.
PATIENCE_S = 0.5
#: So many names of subscriptions are told per box.
MOST_NAMES = 30


@dataclass(frozen=True)
class Siblings:
    """Conditions of one family below the same parent, those that most subscriptions depend on first."""

    key: str
    family: str
    groups: list[int]


class PlanTree:
    """The groups of a plan as a tree per stream. Does not change; a new plan gets a new tree."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self.groups: Sequence[Mapping[str, Any]] = plan["groups"]
        self.keys = [_key(one["stream"], one["family"], one["shared"]) for one in self.groups]
        self.group_of = {
            member["name"]: index for index, one in enumerate(self.groups) for member in one["subscriptions"]
        }
        self.subscriptions = [len(one["subscriptions"]) for one in self.groups]  # at or below
        self.sizes = [1] * len(self.groups)  # conditions, at or below
        for index in range(len(self.groups) - 1, -1, -1):  # a group comes after its parent
            parent = self.groups[index]["parent"]
            if parent is not None:
                self.subscriptions[parent] += self.subscriptions[index]
                self.sizes[parent] += self.sizes[index]
        self.streams: dict[str, int] = {}
        self._siblings: dict[str | int, list[Siblings]] = {}
        self._sort()
        self.summary: list[str] = plan["summary"]
        filters = [one for one in self.groups if one["family"] == "filters"]
        self.savings = Savings(
            subscriptions=sum(len(one["subscriptions"]) for one in filters),
            conditions=len(filters),
            tested_on_every_item=sum(one["parent"] is None for one in filters),
        )

    def _sort(self) -> None:
        below: dict[tuple[str | int, str], list[int]] = {}
        for index, one in enumerate(self.groups):
            parent = one["parent"]
            if parent is None:
                self.streams[one["stream"]] = self.streams.get(one["stream"], 0) + self.subscriptions[index]
            below.setdefault((one["stream"] if parent is None else parent, one["family"]), []).append(index)
        for (parent, family), found in below.items():
            found.sort(key=lambda index: (-self.subscriptions[index], -(self.groups[index]["rows"] or 0)))
            key = f"{'' if isinstance(parent, str) else self.keys[parent]}.{family}"
            self._siblings.setdefault(parent, []).append(Siblings(key, family, found))

    def way(self, name: str) -> list[int]:
        """Returns the groups from the stream to a subscription, its own last."""
        if name not in self.group_of:
            raise unknown(f"no active subscription {name!r}{suggestion(name, self.group_of)}")
        found = []
        index: int | None = self.group_of[name]
        while index is not None:
            found.append(index)
            index = self.groups[index]["parent"]
        return found[::-1]

    def boxes(self, stream: str, opened: Mapping[str, int], way: Sequence[int] = ()) -> list[PlanBox]:
        """Returns boxes, each after its parent.

        `opened` says how many of which siblings to draw. Of others those are drawn that many subscriptions
        depend on, until there are enough boxes. With a `way`, nothing beside it is drawn before it is opened.
        """
        out = [self._root(stream)]
        room = MOST_BOXES
        numbers = count()
        # Parents whose children are not drawn yet, the heaviest first: (weight, number, parent, level, free).
        parents: list[tuple[int, int, str | int, int, bool]] = [(0, next(numbers), stream, 0, not way)]
        while parents:
            _, _, parent, level, free = heapq.heappop(parents)
            above = "" if isinstance(parent, str) else self.keys[parent]
            for siblings in self._siblings.get(parent, ()):
                chosen = siblings.key in opened
                if chosen:
                    many = opened[siblings.key]
                else:
                    many = self._many(siblings.groups) if free and level < LEVELS and room > 0 else 0
                drawn, folded = self._split(siblings.groups, many, way)
                room -= 0 if chosen else len(drawn)
                out += [self._box(index, above, index in way) for index in drawn]
                if folded:
                    out.append(self._folded(siblings, folded, above, many))
                for index in drawn:
                    below = (1 if chosen else level + 1), free or index == way[-1]
                    heapq.heappush(parents, (-self.subscriptions[index], next(numbers), index, *below))
        return out

    def _many(self, siblings: Sequence[int]) -> int:
        """Returns how many siblings to draw: all if they are few, else those that many depend on."""
        if len(siblings) <= FEW:
            return len(siblings)
        many = max(2, LARGE_PART * sum(self.subscriptions[index] for index in siblings))
        return sum(self.subscriptions[index] >= many for index in siblings[: FEW - 1])

    def _split(self, siblings: Sequence[int], many: int, way: Collection[int]) -> tuple[list[int], list[int]]:
        """Returns which to draw and which to fold. A single one is folded only for what is below it."""
        rest = siblings[many:]
        drawn = [*siblings[:many], *(index for index in rest if index in way)]
        folded = [index for index in rest if index not in way]
        if len(folded) == 1 and (many or self.sizes[folded[0]] == 1):
            return drawn + folded, []
        return drawn, folded

    def _root(self, stream: str) -> PlanBox:
        return PlanBox(
            key="",
            parent=None,
            family="",
            title=stream,
            low=1000.0,
            high=1000.0,
            names=[],
            subscriptions=self.streams[stream],
        )

    def _box(self, index: int, above: str, on_way: bool) -> PlanBox:
        group = self.groups[index]
        return PlanBox(
            key=self.keys[index],
            parent=above,
            family=group["family"],
            title=group["shared"],
            low=group["rows"],
            high=group["rows"],
            names=[one["name"] for one in group["subscriptions"][:MOST_NAMES]],
            subscriptions=len(group["subscriptions"]),
            on_way=on_way,
        )

    def _folded(self, siblings: Siblings, folded: Sequence[int], above: str, many: int) -> PlanBox:
        rows = [rows for index in folded if (rows := self.groups[index]["rows"]) is not None]
        names = [one["name"] for index in folded[:MOST_NAMES] for one in self.groups[index]["subscriptions"]]
        return PlanBox(
            key=siblings.key,
            parent=above,
            family=siblings.family,
            title="",
            low=min(rows, default=None),
            high=max(rows, default=None),
            names=names[:MOST_NAMES],
            subscriptions=sum(self.subscriptions[index] for index in folded),
            folded=len(folded),
            below=sum(self.sizes[index] for index in folded) - len(folded),
            opens=many + PAGE,
        )


def _key(stream: str, family: str, shared: str) -> str:
    """The same condition has the same key in the next plan, so what is open stays open."""
    return blake2b(f"{stream}\0{family}\0{shared}".encode(), digest_size=6).hexdigest()


class PlanBoxes:
    """One for a service; may be used from several threads."""

    def __init__(self, plan: Callable[[], Mapping[str, Any]]) -> None:
        self._plan = plan
        self._lock = threading.Lock()
        self._builder = ThreadPoolExecutor(1, "plan-boxes")
        self._next: Future[PlanTree] | None = None
        self._last: tuple[Mapping[str, Any], PlanTree] | None = None

    def tree(self) -> PlanTree:
        """Returns the tree of the plan as it is now; or as it was, where planning again takes long.

        With 10,000 subscriptions a plan takes seconds of CPU. The page asks again soon, and gets it then.
        """
        with self._lock:
            if self._next is None or self._next.done():
                self._next = self._builder.submit(self._build)
            coming, last = self._next, self._last
        try:
            return coming.result(None if last is None else PATIENCE_S)
        except TimeoutError:
            if last is None:
                raise
            return last[1]

    def _build(self) -> PlanTree:
        """Builds a tree only when the plan has changed."""
        plan = self._plan()
        if self._last is None or self._last[0] is not plan:
            self._last = plan, PlanTree(plan)
        return self._last[1]

    def page(self, stream: str, opened: Mapping[str, int], name: str) -> PlanPage:
        """Returns the boxes of a stream, of the one with the most subscriptions if none is named; or of the
        stream of the subscription `name`, with the way to it.
        """
        tree = self.tree()
        way = tree.way(name) if name else []
        streams = [PlanStream(name=one, subscriptions=many) for one, many in tree.streams.items()]
        if way:
            stream = tree.groups[way[-1]]["stream"]
        elif stream not in tree.streams:
            stream = max(tree.streams, key=lambda one: tree.streams[one], default="")
        boxes = tree.boxes(stream, opened, way) if stream else []
        keys = [tree.keys[index] for index in way]
        return PlanPage(streams=streams, stream=stream, summary=tree.summary, boxes=boxes, way=keys)
